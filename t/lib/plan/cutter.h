/* cutter.h - forwards TCP connections, and cuts or mutes the first connection of each port after a number of bytes.
 *
 * A thread serves all ports. The bytes of both directions count together. A muted connection stays open and carries
 * nothing more. Later connections of a port are never cut. */
#ifndef RILLE_T_CUTTER_H
#define RILLE_T_CUTTER_H

#include "t/lib/must.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CUTTER_PORTS = 256, CUTTER_ENDS = 4 * CUTTER_PORTS };
struct cutter_port {
    int fd, target;
    int64_t after; /* bytes, of both directions together, after which the first connection is cut */
    int nconnection;
};
struct cutter_end {
    int fd, other; /* other: index of the other end of the connection */
    int64_t *left; /* bytes that the connection may still carry until it is cut; NULL: it is never cut */
};
struct cutter {
    pthread_t thread;
    atomic_bool quit;
    bool mutes; /* true: mutes connections instead of cutting them */
    struct cutter_port port[CUTTER_PORTS];
    struct cutter_end end[CUTTER_ENDS];
    int nport, nend;
    int ncut; /* number of connections that were cut or muted */
};

static struct sockaddr_in
cutter_address(int port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

/* Opens a port whose connections are forwarded to `target`. Returns its number. Called before cutter_start(). */
static int
cutter_add(struct cutter *c, int target, int64_t after)
{
    struct sockaddr_in a = cutter_address(0);
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(c->nport == CUTTER_PORTS || fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 8) ||
             getsockname(fd, (struct sockaddr *)&a, &n),
         "a port");
    c->port[c->nport++] = (struct cutter_port){fd, target, after, 0};
    return ntohs(a.sin_port);
}

static void
cutter_accept(struct cutter *c, struct cutter_port *p)
{
    struct sockaddr_in a = cutter_address(p->target);
    int in = accept(p->fd, NULL, NULL), out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->nend + 2 > CUTTER_ENDS || in < 0 || out < 0 || connect(out, (struct sockaddr *)&a, sizeof a)) {
        close(in);
        close(out);
        return;
    }
    int64_t *left = p->nconnection++ ? NULL : &p->after;
    c->end[c->nend] = (struct cutter_end){in, c->nend + 1, left};
    c->end[c->nend + 1] = (struct cutter_end){out, c->nend, left};
    c->nend += 2;
}

/* Forwards bytes that have arrived, but none after the planned cut. Returns false if the connection was closed or
 * must be cut now. */
static bool
cutter_forward(const struct cutter *c, const struct cutter_end *e)
{
    char bytes[4096];
    size_t most = e->left && *e->left < (int64_t)sizeof bytes ? (size_t)*e->left : sizeof bytes;
    ssize_t n = most ? recv(e->fd, bytes, most, 0) : 0;
    if (n <= 0) return false;
    if (e->left) *e->left -= n;
    return send(c->end[e->other].fd, bytes, (size_t)n, MSG_NOSIGNAL) == n && (!e->left || *e->left > 0);
}

static void
cutter_end_connection(struct cutter *c, struct cutter_end *e)
{
    const struct linger reset = {1, 0}; /* sends RST, so that bytes on their way are lost */
    struct cutter_end *pair[] = {e, &c->end[e->other]};
    c->ncut += e->left && *e->left == 0;
    for (int i = 0; i < 2; i++) {
        if (i == 0) setsockopt(pair[i]->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(pair[i]->fd);
        pair[i]->fd = -1;
    }
}

static bool
cutter_is_muted(const struct cutter *c, const struct cutter_end *e)
{
    return c->mutes && e->left && *e->left <= 0;
}

static void *
cutter_thread(void *arg)
{
    struct cutter *c = arg;
    static struct pollfd fd[CUTTER_PORTS + CUTTER_ENDS];
    while (!atomic_load(&c->quit)) {
        int nend = c->nend;
        for (int i = 0; i < c->nport; i++) fd[i] = (struct pollfd){.fd = c->port[i].fd, .events = POLLIN};
        for (int i = 0; i < nend; i++)
            fd[c->nport + i] =
                (struct pollfd){.fd = cutter_is_muted(c, &c->end[i]) ? -1 : c->end[i].fd, .events = POLLIN};
        poll(fd, (nfds_t)(c->nport + nend), 50);
        for (int i = 0; i < c->nport; i++)
            if (fd[i].revents) cutter_accept(c, &c->port[i]);
        for (int i = 0; i < nend; i++) {
            struct cutter_end *e = &c->end[i];
            if (cutter_is_muted(c, e)) continue;
            bool over = e->fd >= 0 && e->left && *e->left == 0;
            if (!over && (!fd[c->nport + i].revents || e->fd < 0 || cutter_forward(c, e))) continue;
            if (cutter_is_muted(c, e))
                c->ncut++;
            else
                cutter_end_connection(c, e);
        }
    }
    return NULL;
}

static void
cutter_start(struct cutter *c)
{
    must(pthread_create(&c->thread, NULL, cutter_thread, c), "a thread");
}

static void
cutter_stop(struct cutter *c)
{
    atomic_store(&c->quit, true);
    pthread_join(c->thread, NULL);
    for (int i = 0; i < c->nport; i++) close(c->port[i].fd);
    for (int i = 0; i < c->nend; i++)
        if (c->end[i].fd >= 0) close(c->end[i].fd);
}

#endif
