/* key.h - CURVE keys of a cluster, in files for the coordinator and its workers.
 *
 * There are two kinds of keys. A shared key is a file with two secrets: one of the coordinator, one of the workers.
 * The coordinator admits any holder of the workers' secret, as any rank. Keys per rank are a folder with a file per
 * process: "coordinator", "worker-0", "worker-1"... A file holds the secret of its process and the public keys of
 * all processes. A key per rank proves its worker's rank to the coordinator and to other workers, so a stolen key
 * gives access as one rank only.
 *
 * A user who can read a key file has access to the cluster, so key_read() rejects files that other users can read. A
 * caller that reads or copies a key owns the key until key_forget(); any thread. The bytes of keys are written to key
 * files and nowhere else. */
#ifndef RILLE_CLUSTER_KEY_H
#define RILLE_CLUSTER_KEY_H

#include "runtime/data/str.h"

enum {
    KEY_TEXT = 41, /* size of a key as text: 40 characters of Z85, and NUL */
    KEY_FILE = 24, /* size of the longest file name in a folder of keys, and NUL */
};

/* The owner of a key: a rank, from 0, or one of two constants. KEY_ANY: workers of any rank; KEY_COORDINATORS: the
 * coordinator */
enum { KEY_ANY = -1, KEY_COORDINATORS = -2 };
enum key_side { KEY_COORDINATOR, KEY_WORKER };
struct key {
    /* keys as text, by side (enum key_side). "": the key is not known, or it is a secret of another process */
    char secret[2][KEY_TEXT], public[2][KEY_TEXT];
    int nrank; /* number of ranks with keys per rank; 0: the workers share a key */
    /* rank of the worker that owns the secret; KEY_ANY: the workers share the secret; KEY_COORDINATORS: the
     * coordinator owns the secret */
    int rank;
    char (*of)[KEY_TEXT]; /* public key of each rank */
};

int key_new(struct str *text); /* generates the text of a shared key file. E_STATE: libzmq was built without CURVE */
/* Generates the texts of the files in a folder of keys: text[0] for the coordinator, text[1 + r] for rank r.
 * E_STATE: libzmq was built without CURVE; E_ARG: nrank is less than 1. */
int key_new_ranks(int nrank, struct str *text);
void key_file_name(int whose, char name[KEY_FILE]);
/* Reads a key. path: a key file, or a folder of key files, where `whose` (a rank or KEY_COORDINATORS) selects the
 * file. E_IO: unreadable, or accessible to other users. E_ARG: malformed (the text names the line), or the key of
 * another process. From this call on, the process writes no core file. */
int key_read(const char *path, int whose, struct key *out);
/* parses the text of a key file. E_ARG: malformed; the caller need not call key_forget() then */
int key_parse(const char *text, size_t n, struct key *out);
void key_copy(const struct key *k, struct key *out);
void key_forget(struct key *k); /* overwrites the secrets with zeros and frees the key's memory */

#endif
