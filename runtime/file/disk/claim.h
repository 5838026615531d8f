/* claim.h - exclusive write access to a folder for the life of a session.
 *
 * A claim is a lock on the file .owner in the folder; the file names the owner. The system releases the lock when
 * the process ends, even by a crash; a file that is left behind is not locked. On a file system without locks the
 * claim has no effect. A session owns its claims and uses them on its thread. */
#ifndef RILLE_RUNTIME_FILE_DISK_CLAIM_H
#define RILLE_RUNTIME_FILE_DISK_CLAIM_H

#include "runtime/base/base.h"

struct claims {
    struct claim *last;
};
/* Claims a folder, unless `c` has already claimed it. E_IO: another session has claimed the folder; the text names
 * the folder and both processes. */
int claims_add(struct claims *c, const char *folder);
void claims_free(struct claims *c);

#endif
