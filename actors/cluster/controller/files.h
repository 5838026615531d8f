/* files.h - requests to write and read files. Any thread. */
#ifndef RILLE_CLUSTER_CONTROLLER_FILES_H
#define RILLE_CLUSTER_CONTROLLER_FILES_H

#include "actors/cluster/controller/controller_inner.h"

struct file_request { /* one SAVE packet, or one of the LOAD packets of a file */
    int file;         /* index of the file in filing.file */
    struct packet packet;
    bool done;
};

struct filing { /* list of files for which one thread waits; stored on this thread's stack */
    struct filing *next;
    struct cluster_file *file;
    struct file_request *request;
    uint64_t first; /* number of the first request */
    int nfile, n, capacity;
    bool interruptible;
};

/* Records the outcome of a request, or a part of it. The caller holds the lock. */
void control_filed(struct cluster *c, const struct notice *n);

/* Returns true if workers may write and read this path, which must be a result of realpath(). */
bool cluster_has_root(const struct cluster *c, const char *path);
int cluster_world(const struct cluster *c); /* returns the largest number of workers of the job */
/* Requests all n files at once and waits for the outcomes. Any thread. E_LOST; E_IO: the error text names the worker
 * and the reason. interruptible (session's thread only): after cluster_interrupt() the call waits until every worker
 * has abandoned its unfinished files, then fails with E_CANCEL. */
int cluster_files(struct cluster *c, int n, struct cluster_file *file, bool interruptible);
void cluster_file_free(struct cluster_file *f);

#endif
