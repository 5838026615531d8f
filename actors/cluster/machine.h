/* machine.h - which host this is, and whether a process is one of ours. Any thread. */
#ifndef RILLE_CLUSTER_MACHINE_H
#define RILLE_CLUSTER_MACHINE_H

#include "runtime/str.h"

/* Appends a text that is equal for processes that can open each other's memory: one boot of one kernel, one user, one
 * view of processes. host: the one to pretend (tests); NULL: the one that it is. */
void machine_text(const char *host, struct str *out);
/* Appends what makes the text this process's alone: nobody else opens its memory. */
void machine_apart(struct str *out);
/* Are two texts of one host, apart or not? */
bool machine_is_same(const char *a, size_t n, const char *b);
void machine_host(const char *host, char out[64]); /* its name */
enum { MACHINE_ADDRESS = 64 };
/* The number of a host, as an address has it: "10.0.0.1", "[fd00::1]"; that of IPv4 where it has both. false: nobody
 * knows it. */
bool machine_number(const char *host, size_t n, char out[MACHINE_ADDRESS]);
/* The number of this host by which it reaches that of "tcp://HOST:PORT"; false: it does not, and out is 127.0.0.1. */
bool machine_address(const char *to, char out[MACHINE_ADDRESS]);
/* Does this number, or "localhost", name the host that says it? */
bool machine_is_loopback(const char *host, size_t n);
/* Is the process another one that runs this very program as this user? The controller watches, and kills, only such a
 * one. */
bool machine_runs_us(int pid);

/* Kills such a process, and waits until it is gone; another program's is left alone. */
void machine_end(int pid);

#endif
