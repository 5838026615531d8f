/* batch_result.h - makes results of a step from the values of its micro-batches.
 *
 * Used only on the session's thread, at the end of a trace. */
#ifndef RILLE_ACTORS_SESSION_BATCH_BATCH_RESULT_H
#define RILLE_ACTORS_SESSION_BATCH_BATCH_RESULT_H

#include "actors/session/core/call_context.h"

struct segments;
/* Makes the batch's value of result v: joins rows (*join), adds sums, and averages other values over the
 * micro-batches. *reduce: operator that reduces the joined rows to the result; NULL: none. */
int batch_result(const struct call_context *ctx, const struct segments *segments, struct val *v, struct val **out,
                 bool *join, const struct op **reduce);

#endif
