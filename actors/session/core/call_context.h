/* call_context.h - settings of an operator call that come from the surrounding code: source line, phase, gradient
 * mode, strategy.
 *
 * A context is an argument: functions pass it down and never change it. A function that needs other settings for
 * the calls below it makes a copy. The session holds one context (session.h). Public functions set its source
 * line and gradient mode before they call an operator. A copy belongs to the function that makes it. Used only on
 * the session's thread. */
#ifndef RILLE_SESSION_CALL_CONTEXT_H
#define RILLE_SESSION_CALL_CONTEXT_H

#include "runtime/graph/graph.h"

struct split_propagation;
struct rille_session;
struct strategy;
struct call_context {
    struct rille_session *s;
    struct line at; /* source line of new nodes */
    /* name of the composite operator that new nodes are part of; NULL: not part of one */
    const char *composite;
    const char *function;            /* name of the user's function (rille.func) that makes the call; NULL: none */
    bool user_backward;              /* a backward function (rille.func) or a hook makes the call */
    enum node_phase phase;           /* phase of new nodes: forward, backward, weight gradients, or once per batch */
    bool grad;                       /* new nodes are recorded for differentiation */
    const struct strategy *strategy; /* strategy for the called operator, borrowed; NULL: none */
    /* splits that the enclosing call's strategy requires of the operators inside it; NULL: none */
    struct split_propagation *inside;
};

#endif
