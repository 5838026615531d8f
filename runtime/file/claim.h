/* claim.h - exclusive write access to a folder for the life of a session.
 *
 * A claim is a lock on the file .owner in the folder; the file names the owner. The system releases the lock when
 * the process ends, even by a crash; the file left behind is then unlocked. On a file system without locks the claim
 * has no effect. The claims belong to a session and its thread. */
#ifndef RILLE_RUNTIME_FILE_CLAIM_H
#define RILLE_RUNTIME_FILE_CLAIM_H

#include "runtime/base/base.h"

struct claims {
    struct claim *last;
};
/* Claims a folder. A folder already claimed in `c` is not claimed again. E_IO, naming the folder and both processes:
 * another session has the folder. */
int claims_add(struct claims *c, const char *folder);
void claims_free(struct claims *c);

#endif
