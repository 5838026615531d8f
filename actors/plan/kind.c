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
    return p->task[task].type;
}
