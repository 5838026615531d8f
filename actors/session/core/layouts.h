/* layouts.h - default and reduced layouts, and the texts of layouts. The atlas owns all layouts. Used only on the
 * session's thread. */
#ifndef RILLE_SESSION_LAYOUTS_H
#define RILLE_SESSION_LAYOUTS_H

#include "runtime/tensor/layout.h"

struct rille_session;
/* Layout texts that public functions returned, by layout id; kept so that the pointers stay valid. */
struct layout_texts {
    char **text;
    int32_t n, capacity;
};
/* Returns the default layout: replicated on device 0 of the default kind. */
const struct layout *session_layout(struct rille_session *s);
/* Sets *out to l with B in place of every partial axis: the layout of values, gradients and sources without a
 * pending reduction. */
int layout_summed(struct atlas *a, const struct layout *l, const struct layout **out);

#endif
