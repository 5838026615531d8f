/* machine.h - identifies this host, and processes of this program on the host. Any thread. */
#ifndef RILLE_CLUSTER_MACHINE_H
#define RILLE_CLUSTER_MACHINE_H

#include "runtime/data/str.h"

#include <sys/socket.h>

/* Appends a text that is equal in two processes if each can access the other's memory: same boot of a kernel, same
 * user, same pid namespace. host: name of a simulated host, for tests; NULL: the real host. */
void machine_text(const char *host, struct str *out);
/* Appends a suffix unique to this process, which then counts as sharing memory with no other process. */
void machine_apart(struct str *out);
/* Returns true if two texts are of the same host. Ignores the suffix of machine_apart(). */
bool machine_is_same(const char *a, size_t n, const char *b);
/* writes the name of the host; host: a simulated name, NULL: the real host */
void machine_host(const char *host, char out[64]);
enum { MACHINE_ADDRESS = 64 };
/* Writes the numeric address of a host, such as "10.0.0.1" or "[fd00::1]"; IPv4 is preferred. Returns false if the
 * host is unknown. */
bool machine_number(const char *host, size_t n, char out[MACHINE_ADDRESS]);
/* Writes the socket address of a port of a host, and returns its size in bytes; 0: the host is unknown. */
socklen_t machine_socket(const char *host, size_t n, uint16_t port, struct sockaddr_storage *out);
/* Writes the numeric address that this host uses as sender to reach "tcp://HOST:PORT". Returns false, and writes
 * 127.0.0.1, if HOST cannot be reached. */
bool machine_address(const char *to, char out[MACHINE_ADDRESS]);
/* Returns true if the host is "localhost" or a loopback address. */
bool machine_is_loopback(const char *host, size_t n);
/* Kills a process, if system_process_runs_us() is true for it, and waits until it has ended; never kills a process of
 * another program. E_BUS: the process still exists after 20 s. */
int machine_end(int pid);

#endif
