/* machine.h - identifies this host, and the processes that run this program. Any thread. */
#ifndef RILLE_CLUSTER_MACHINE_H
#define RILLE_CLUSTER_MACHINE_H

#include "runtime/base/str.h"

/* Appends a text that is equal for processes with access to each other's memory: same boot of a kernel, same user,
 * same pid namespace. host: name of a host to pretend (tests); NULL: the real one. */
void machine_text(const char *host, struct str *out);
/* Appends a suffix that makes the text unique to this process: no other process opens its memory. */
void machine_apart(struct str *out);
/* Returns true if two texts are of one host, with or without that suffix. */
bool machine_is_same(const char *a, size_t n, const char *b);
void machine_host(const char *host, char out[64]); /* name of the host */
enum { MACHINE_ADDRESS = 64 };
/* Writes the numeric address of a host: "10.0.0.1", "[fd00::1]"; IPv4 is preferred. false: unknown host. */
bool machine_number(const char *host, size_t n, char out[MACHINE_ADDRESS]);
/* Writes the numeric address from which this host reaches "tcp://HOST:PORT"; false: unreachable, and out is
 * 127.0.0.1. */
bool machine_address(const char *to, char out[MACHINE_ADDRESS]);
/* Returns true if the address is a loopback address or "localhost". */
bool machine_is_loopback(const char *host, size_t n);
/* Returns true if the process is another process of this user that runs this very program. The controller watches
 * and kills only such processes. */
bool machine_runs_us(int pid);

/* Kills such a process and waits until it is gone; never kills another program. E_BUS: it is still there after 20 s. */
int machine_end(int pid);

#endif
