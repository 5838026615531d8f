/* call_context.h - the settings that a call of an operator has from the code around it.
 *
 * A context is an argument: functions pass it down and never change it. A function that needs other settings for the
 * calls below it makes a copy. The session holds one context (session.h), with the settings that public functions set
 * between calls: the line and the gradient mode. A copy belongs to the function that makes it. Session's thread. */
#ifndef RILLE_SESSION_CALL_CONTEXT_H
#define RILLE_SESSION_CALL_CONTEXT_H

#include "runtime/graph/graph.h"

struct split_propagation;
struct rille_session;
struct strategy;
struct call_context {
    struct rille_session *s;
    struct line at;                   /* source line of new nodes */
    const char *composite;            /* name of new nodes: the composite operator they are made for; NULL: their own */
    enum node_phase phase;            /* phase of new nodes */
    bool grad;                        /* new nodes may be differentiated */
    const struct strategy *strategy;  /* strategy of the called operator, borrowed; NULL: none */
    struct split_propagation *inside; /* splits inside the enclosing call with a strategy; NULL: none */
};

#endif
