/* twice.h - a step that is traced twice, once keeping all that backward reads and once computing it again: of the two
 * the faster that fits.
 *
 * What a step takes is known when its schedule has been searched for, and whether nodes compute something again when it
 * is traced. So the caller traces once more (rille_graph_options.again). The session owns what came of the first trace;
 * on its thread. */
#ifndef RILLE_SESSION_TWICE_H
#define RILLE_SESSION_TWICE_H

#include "actors/session/compiled.h"

/* At a trace's end, with what came of it: *status, and *g where that is 0. base: what 1F1B holds of it, bytes. True,
 * with *g NULL and *status 0: the step is to be traced again; else both are those of the better trace. */
bool twice_again(struct rille_session *s, const struct rille_graph_options *o, int64_t base, int *status,
                 struct rille_graph **g);
/* What 1F1B holds when all is kept, in the second trace; 0: it is not one. */
int64_t twice_base(const struct rille_session *s);
/* Forgets the first trace. */
void twice_end(struct rille_session *s);

#endif
