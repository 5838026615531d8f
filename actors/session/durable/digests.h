/* digests.h - digests of buffers. The caller owns them; any thread. */
#ifndef RILLE_SESSION_DIGESTS_H
#define RILLE_SESSION_DIGESTS_H

#include "runtime/base/base.h"
#include <stdatomic.h>

struct buffer;
struct rille_session;
struct summed {
    const struct buffer *buffer;
    int kind; /* device kind of the buffer */
    int32_t device;
    uint64_t *digest; /* out: digests of the buffer's blocks; the caller frees them; NULL: not computed */
};
/* Computes the digests of n buffers. The session holds the buffers meanwhile. Any thread. E_CANCEL: *stop was set
 * (stop NULL: never). E_LOST: a host was lost. */
int digests_of_buffers(struct rille_session *s, int32_t n, struct summed *list, const atomic_bool *stop);

#endif
