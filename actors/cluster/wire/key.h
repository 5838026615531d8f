/* key.h - CURVE keys of a cluster, in files for the coordinator and its workers.
 *
 * A cluster has either one file with two secrets, the coordinator's and the workers'. The coordinator admits any
 * holder of the workers' secret, as any rank. Or it has a folder with a file per process: "coordinator", "worker-0",
 * "worker-1"... A file holds the secret of its process and the public keys of all processes. A worker's key then
 * proves its rank to the coordinator and to the workers, and a stolen key gives access to no second rank.
 *
 * A readable key file gives access, so key_read() rejects a file that other users can read. A caller that
 * reads or copies a key owns it until key_forget(); any thread. Key bytes are written to the key files only. */
#ifndef RILLE_CLUSTER_KEY_H
#define RILLE_CLUSTER_KEY_H

#include "runtime/base/str.h"

enum {
    KEY_TEXT = 41, /* 40 characters of Z85, and NUL */
    KEY_FILE = 24, /* longest file name in a folder, and NUL */
};

/* The owner of a key: a rank from 0, or one of two constants. */
enum { KEY_ANY = -1 /* any worker, of whatever rank */, KEY_COORDINATORS = -2 };
enum key_side { KEY_COORDINATOR, KEY_WORKER };
struct key {
    char secret[2][KEY_TEXT], public[2][KEY_TEXT]; /* by side; "": unknown, or no secret of this process */
    int nrank;                                     /* number of ranks; 0: the workers share a key */
    int rank;                                      /* rank of the worker's side; KEY_ANY: shared by all workers */
    char (*of)[KEY_TEXT];                          /* public keys, by rank */
};

int key_new(struct str *text); /* the file of a shared key. E_STATE: libzmq has no CURVE */
/* Generates the files of a folder: text[0] is the coordinator's, text[1 + r] that of rank r. E_STATE; E_ARG: no
 * rank. */
int key_new_ranks(int nrank, struct str *text);
void key_file_name(int whose, char name[KEY_FILE]);
/* Reads a key. path: a file, or a folder whose file is selected by `whose`. E_IO: unreadable, or accessible to other
 * users. E_ARG: malformed (with line number), or the key of another process. From then on this process leaves no
 * core file. */
int key_read(const char *path, int whose, struct key *out);
int key_parse(const char *text, size_t n, struct key *out); /* E_ARG: malformed, and *out needs no key_forget() */
void key_copy(const struct key *k, struct key *out);
void key_forget(struct key *k); /* overwrites the secrets, and frees */

#endif
