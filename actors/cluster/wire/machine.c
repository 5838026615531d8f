/* machine.c - identity of a host (boot id, user, pid namespace) and of the program that a process runs. */
#include "actors/cluster/wire/machine.h"

#include "runtime/base/error.h"
#include "runtime/base/system.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { END_MS = 20000 }; /* time limit, ms, for a killed process to end: the kernel needs long to free much memory */

void
machine_text(const char *host, struct str *out)
{
    char system[SYSTEM_HOST];
    system_host(system);
    str_addf(out, "%s", system);
    if (host) str_addf(out, " %s", host);
}

static const char APART[] = " apart ";

void
machine_apart(struct str *out)
{
    str_addf(out, "%s%ld", APART, (long)getpid());
}

static size_t
host_part(const char *text, size_t n)
{
    const char *apart = memmem(text, n, APART, sizeof APART - 1);
    return apart ? (size_t)(apart - text) : n;
}

bool
machine_is_same(const char *a, size_t n, const char *b)
{
    size_t of_a = host_part(a, n), of_b = host_part(b, strlen(b));
    return of_a == of_b && !memcmp(a, b, of_a);
}

void
machine_host(const char *host, char out[64])
{
    char own[256] = ""; /* a system may cut a long name without a NUL, so the last byte is not passed to it */
    if (!host && gethostname(own, sizeof own - 1)) host = "unknown";
    snprintf(out, 64, "%s", host ? host : own);
}

static bool
print_number(const struct sockaddr *a, socklen_t n, char out[MACHINE_ADDRESS])
{
    char number[MACHINE_ADDRESS - 2];
    if (getnameinfo(a, n, number, sizeof number, NULL, 0, NI_NUMERICHOST)) return false;
    snprintf(out, MACHINE_ADDRESS, a->sa_family == AF_INET6 ? "[%s]" : "%s", number);
    return true;
}

/* Looks up a host name or address, IPv4 first; NULL: unknown. Brackets around an IPv6 address are removed. The
 * caller frees the result. */
static struct addrinfo *
resolve_host(const char *host, size_t n)
{
    static const int family[] = {AF_INET, AF_INET6};
    struct addrinfo *found = NULL;
    char name[256];
    if (n >= 2 && host[0] == '[' && host[n - 1] == ']') host++, n -= 2;
    if (n >= sizeof name) return NULL;
    snprintf(name, sizeof name, "%.*s", (int)n, host);
    for (size_t i = 0; i < countof(family) && !found; i++) {
        struct addrinfo want = {.ai_family = family[i], .ai_socktype = SOCK_DGRAM};
        if (getaddrinfo(name, "1", &want, &found)) found = NULL;
    }
    return found;
}

bool
machine_number(const char *host, size_t n, char out[MACHINE_ADDRESS])
{
    struct addrinfo *found = resolve_host(host, n);
    bool good = found && print_number(found->ai_addr, found->ai_addrlen, out);
    if (found) freeaddrinfo(found);
    return good;
}

socklen_t
machine_socket(const char *host, size_t n, uint16_t port, struct sockaddr_storage *out)
{
    struct addrinfo *found = resolve_host(host, n);
    socklen_t bytes = found ? found->ai_addrlen : 0;
    if (found) memcpy(out, found->ai_addr, bytes);
    if (found) freeaddrinfo(found);
    if (bytes && out->ss_family == AF_INET) ((struct sockaddr_in *)out)->sin_port = htons(port);
    if (bytes && out->ss_family == AF_INET6) ((struct sockaddr_in6 *)out)->sin6_port = htons(port);
    return bytes;
}

/* Writes the local address from which this host reaches `to`. Finds the address by connecting a datagram socket,
 * which selects a route and sends nothing. */
static bool
own_end(const struct addrinfo *to, char out[MACHINE_ADDRESS])
{
    struct sockaddr_storage own;
    socklen_t n = sizeof own;
    int fd = system_socket(to->ai_family, SOCK_DGRAM, false);
    bool good = fd >= 0 && !connect(fd, to->ai_addr, to->ai_addrlen) && !getsockname(fd, (struct sockaddr *)&own, &n) &&
                print_number((struct sockaddr *)&own, n, out);
    if (fd >= 0) close(fd);
    return good;
}

bool
machine_address(const char *to, char out[MACHINE_ADDRESS])
{
    const char *host = strncmp(to, "tcp://", 6) ? NULL : to + 6, *colon = host ? strrchr(host, ':') : NULL;
    struct addrinfo *found = colon ? resolve_host(host, (size_t)(colon - host)) : NULL;
    bool good = found && own_end(found, out);
    if (found) freeaddrinfo(found);
    if (!good) snprintf(out, MACHINE_ADDRESS, "127.0.0.1");
    return good;
}

bool
machine_is_loopback(const char *host, size_t n)
{
    return (n == 9 && !memcmp(host, "localhost", 9)) || (n > 4 && !memcmp(host, "127.", 4)) ||
           (n == 5 && !memcmp(host, "[::1]", 5));
}

int
machine_end(int pid)
{
    struct system_process p;
    if (system_process_open(&p, pid)) return 0;
    bool killed = system_process_runs_us(pid) && !system_process_kill(&p);
    bool over = !killed || system_process_ended(&p, END_MS);
    system_process_close(&p);
    return over ? 0 : fail(E_BUS, "process %d was killed and has not ended within %d s", pid, END_MS / 1000);
}
