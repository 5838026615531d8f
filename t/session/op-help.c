/* op-help.c - tests the help pages of operators that rille_op_help() makes. */
#include "rille.h"
#include "t/lib/tap.h"

/* Returns true if the page has no gap: no operand without a name, and no line that ends in a blank. */
static bool
is_complete(const char *page, const char *name)
{
    return page && !strncmp(page, name, strlen(name)) && !strstr(page, "(null)") && !strstr(page, " \n");
}

int
main(void)
{
    struct rille_session *s;
    const struct rille_op *op;
    int n = 0;
    if (rille_open(&(struct rille_options){.devices = "cpu:1"}, &s)) return 1;
    for (; (op = rille_op_at(n)); n++) {
        char *page = rille_op_help(s, op);
        ok(is_complete(page, rille_op_name(op)), "the page of %s has a name for each operand", rille_op_name(op));
        ok(!rille_op_source(op) || strstr(page, "a leaf of the given shape"), "the page of %s says what it returns",
           rille_op_name(op));
        free(page);
    }
    ok(n > 80, "there are more than 80 operators");
    rille_close(&s);
    return done();
}
