/* claim.h - a folder that one session alone writes to, for as long as it lives.
 *
 * A claim is a lock on the file .owner of the folder, which says who has it. The system gives it up for a process that
 * ends, however that ends; what it leaves then is a file that nobody has locked. Where a file system has no locks
 * nothing is claimed. The claims belong to a session, and to its thread. */
#ifndef RILLE_RUNTIME_FILE_CLAIM_H
#define RILLE_RUNTIME_FILE_CLAIM_H

#include "runtime/base.h"

struct claims {
    struct claim *last;
};
/* E_IO, naming both, where another session has the folder. One that is there already is no second claim. */
int claims_add(struct claims *c, const char *folder);
void claims_free(struct claims *c);

#endif
