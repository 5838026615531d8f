/* key.h - the key of a cluster: one file that the coordinator and its workers have.
 *
 * It holds two secrets of CURVE, one for each side; the public keys follow from them. A coordinator lets in who has the
 * worker's, a worker talks to who has the coordinator's. Whoever can read the file gets in, so key_read() refuses a
 * file that others can read. Values; any thread. Bytes of keys go nowhere but to the file. */
#ifndef RILLE_CLUSTER_KEY_H
#define RILLE_CLUSTER_KEY_H

#include "runtime/str.h"

enum { KEY_TEXT = 41 }; /* 40 characters of Z85, and the end mark */

struct key {
    char secret[2][KEY_TEXT], public[2][KEY_TEXT]; /* by side */
};
enum key_side { KEY_COORDINATOR, KEY_WORKER };

int key_new(struct str *text); /* what the file holds. E_STATE: this libzmq has no CURVE */
/* E_IO, E_ARG: why this process cannot read it, that others can, or what is wrong in which line. From then on the
 * process leaves no core file. */
int key_read(const char *path, struct key *out);
int key_parse(const char *text, size_t n, struct key *out);
void key_forget(struct key *k); /* writes over the secrets */

#endif
