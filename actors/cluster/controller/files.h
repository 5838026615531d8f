/* files.h - requests to write and read files. Any thread. */
#ifndef RILLE_CLUSTER_CONTROLLER_FILES_H
#define RILLE_CLUSTER_CONTROLLER_FILES_H

#include "actors/cluster/controller/controller_inner.h"

struct file_request { /* a SAVE, or a part of a LOAD */
    int file;         /* index in filing.file */
    struct packet packet;
    bool done;
};

struct filing { /* files awaited by a thread, on the thread's stack */
    struct filing *next;
    struct cluster_file *file;
    struct file_request *request;
    uint64_t first; /* count of the first request */
    int nfile, n, capacity;
    bool interruptible;
};

/* Takes the outcome of a request, or a piece of it. With the lock. */
void control_filed(struct cluster *c, const struct notice *n);

#endif
