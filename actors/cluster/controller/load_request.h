/* load_request.h - distributes the copies that read a file over requests (LOAD packets) of limited size. Pure. */
#ifndef RILLE_CLUSTER_LOAD_REQUEST_H
#define RILLE_CLUSTER_LOAD_REQUEST_H

#include "actors/cluster/wire/wire.h"
#include "runtime/file/shards.h"

enum {
    LOAD_BLOCKS = WIRE_PIECE / 8,                         /* maximum number of digests in a request */
    LOAD_COPIES = WIRE_PIECE / sizeof(struct shard_copy), /* maximum number of copies in a request */
};

/* The copies of one request, and the range of file blocks that they read. The request carries the digests of these
 * blocks. */
struct load_request {
    int32_t first, n; /* first: index of the request's first copy in load_requests.copy; n: number of copies */
    int64_t first_block, end_block;
};
struct load_requests {
    struct shard_copy *copy;
    struct load_request *request;
    int32_t ncopy, nrequest, copy_capacity, request_capacity;
};

/* Makes the requests for n copies. A copy that reads more blocks than a request can carry is divided. */
void load_requests_make(const struct shard_copy *copy, int32_t n, struct load_requests *out);
void load_requests_free(struct load_requests *l);

#endif
