/* kind.c - what most kinds of tasks do alike. */
#include "actors/plan/plan.h"

void
kind_print_name(const struct plan *p, int32_t task, struct str *s)
{
    str_add(s, p->task[task].name);
}

struct type
kind_result_type(const struct plan *p, int32_t task, int32_t out)
{
    UNUSED(out);
    const struct type *t = p->task[task].type;
    return t ? *t : (struct type){0};
}
