/* collect.h - makes the program (a list of operator calls in order) that computes requested values. The session
 * owns the collection of the last walk. Used only on the session's thread. */
#ifndef RILLE_SESSION_COLLECT_H
#define RILLE_SESSION_COLLECT_H

#include "runtime/graph/graph.h"

struct collection;
struct program;
struct rille_session;

enum collect_mode {
    COLLECT_RUN,     /* requested values that are not computed, and values that their gradients will read */
    COLLECT_TRACE,   /* nodes that were added in the trace */
    COLLECT_EXPLAIN, /* all nodes down to variables and discarded values, whether computed or not */
};
int collect(struct rille_session *s, int n, struct val *const *root, enum collect_mode mode);
void collection_key(struct rille_session *s, struct collection *c);
struct program *collection_program(struct rille_session *s, struct collection *c);

int32_t *collection_uses(struct collection *c);
void collection_unfinished(struct collection *c);
int32_t collection_slot(const struct collection *c, const struct val *v);
void collection_free(struct collection *c);

/* Checks that v can be read. E_STATE: a failed run has left v half written; the text names the variable. */
int val_readable(const struct val *v);

#endif
