/* infer.c - checks operands, dtypes, rule and shapes of a call, before anything else.
 *
 * Every error text begins with the operator's name, states the expected and the found values, and ends with the
 * operands. */
#include "sbp/infer.h"

#include "runtime/base/error.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- printing the operands of a call ---- */

/* Returns the record's declaration of operand i. All members of a list share the last declaration. */
static const struct operand *
declared(const struct call *c, int i, int *position)
{
    int k = 0;
    while (k < i && k + 1 < OP_OPERAND && c->op->in[k + 1].name) k++;
    *position = i - k;
    return &c->op->in[k];
}

static unsigned
flags_of(const struct call *c, int i)
{
    int position;
    return declared(c, i, &position)->flags;
}

void
call_print_name(const struct call *c, int i, struct str *s)
{
    int position;
    const struct operand *o = declared(c, i, &position);
    if (!o->name)
        str_addf(s, "operand %d", i);
    else if (o->flags & IN_LIST)
        str_addf(s, "%s[%d]", o->name, position);
    else
        str_add(s, o->name);
}

static void
print_operand(const struct call *c, int i, struct str *s)
{
    call_print_name(c, i, s);
    str_add(s, " is ");
    if (c->in[i].weak) {
        str_add(s, "a number");
        return;
    }
    type_print(&c->in[i], s);
    const struct layout *l = c->layout ? c->layout[i] : NULL;
    if (!l) return;
    str_add(s, " ");
    layout_print(l, s);
    str_add(s, " on ");
    place_print(l->place, s);
}

void
call_print_operands(const struct call *c, struct str *s)
{
    bool first = true;
    for (int i = 0; i < c->nin; i++) {
        if (c->in[i].dtype == DT_NONE || flags_of(c, i) & IN_HIDDEN) continue;
        if (!first) str_add(s, ", ");
        first = false;
        print_operand(c, i, s);
    }
}

int
call_fail(enum err_code code, const struct call *c, const char *fmt, ...)
{
    char what[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    struct str operands = {0};
    call_print_operands(c, &operands);
    int status = fail(code, "%s: %s%s%s", c->op->name, what, operands.len ? "; " : "", str_text(&operands));
    str_free(&operands);
    return status;
}

/* Fails with an error text made of the operator's name, the operand's name, the given text, and all operands. */
static int __attribute__((format(printf, 4, 5)))
refuse_operand(enum err_code code, const struct call *c, int i, const char *fmt, ...)
{
    char what[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    struct str name = {0};
    call_print_name(c, i, &name);
    int status = call_fail(code, c, "%s %s", str_text(&name), what);
    str_free(&name);
    return status;
}

/* ---- checking the operands' dtypes ---- */

static char
dtype_class(enum dtype d)
{
    return dtype_is_float(d) ? 'F' : dtype_is_int(d) ? 'I' : 'B';
}

/* Returns true if d is in a set of dtypes, given as class letters and names, such as "FI" or "F i64". */
static bool
set_has(const char *set, enum dtype d)
{
    const char *name = dtype_text(d);
    size_t n = strlen(name);
    while (*set) {
        if (isupper((unsigned char)*set) && *set == dtype_class(d)) return true;
        size_t word = 0;
        while (islower((unsigned char)set[word]) || isdigit((unsigned char)set[word])) word++;
        if (word == n && !strncmp(set, name, n)) return true;
        set += word ? word : 1;
    }
    return false;
}

/* Prints a set of dtypes in words: "float or integer" for "FI"; dtype names are printed unchanged. */
static void
print_set(const char *set, struct str *s)
{
    static const struct {
        char letter;
        const char *text;
    } word[] = {{'F', "float"}, {'I', "integer"}, {'B', "bool"}};
    bool first = true;
    for (; *set; set++) {
        const char *text = NULL;
        for (size_t w = 0; w < countof(word); w++)
            if (word[w].letter == *set) text = word[w].text;
        if (!text) {
            str_addn(s, set, 1);
            continue;
        }
        str_addf(s, "%s%s", first ? "" : " or ", text);
        first = false;
    }
}

/* Returns advice for the error that an operand with positions (indices) does not have an integer dtype. */
static const char *
index_remedy(enum dtype d)
{
    return d == DT_BOOL ? "; a mask selects with masked_select" : "; convert it with to(\"i64\")";
}

static int
check_class(const struct call *c, int i, const char *set)
{
    enum dtype d = c->in[i].dtype;
    if (set_has(set, d)) return 0;
    /* `set` is a class of dtypes, such as F (floats of any width); a number of the script fits every width of its own
     * class, and an integer also fits the floats */
    if (c->in[i].weak && (strchr(set, 'F') || (strchr(set, 'I') && dtype_is_int(d)))) return 0;
    struct str want = {0};
    print_set(set, &want);
    bool index = flags_of(c, i) & IN_INDEX && !c->in[i].weak;
    int code = refuse_operand(E_DTYPE, c, i, "must be %s, found %s%s%s", str_text(&want),
                              c->in[i].weak ? "a number, " : "", dtype_text(d), index ? index_remedy(d) : "");
    str_free(&want);
    return code;
}

static int
check_operand(const struct call *c, int i)
{
    unsigned flags = flags_of(c, i);
    if (flags & IN_HIDDEN) return 0;
    if (c->in[i].dtype == DT_NONE) return flags & IN_OPTIONAL ? 0 : refuse_operand(E_ARG, c, i, "is missing");
    if (c->in[i].weak && !(flags & IN_NUMBER)) return refuse_operand(E_ARG, c, i, "must be a tensor, found a number");
    if (flags & IN_INDEX) return check_class(c, i, "I");
    if (flags & IN_FLOAT) return check_class(c, i, "F");
    return c->op->shape.accepts ? check_class(c, i, c->op->shape.accepts) : 0;
}

/* Returns the promoted dtype of the operands. Index operands, and numbers that the operator hides from users
 * (IN_HIDDEN), do not count. */
static enum dtype
promoted(const struct call *c)
{
    struct promotion p = {0};
    for (int i = 0; i < c->nin; i++)
        if (!(flags_of(c, i) & (IN_INDEX | IN_HIDDEN))) promotion_add(&p, &c->in[i]);
    return promotion_end(&p);
}

static enum dtype
given_dtype(const struct call *c)
{
    for (int i = 0; i < OP_ATTR && c->op->attr[i].name; i++)
        if (c->op->attr[i].kind == ATTR_DTYPE && c->attr[i].i) return (enum dtype)c->attr[i].i;
    return DT_NONE;
}

static enum dtype
out_dtype(const struct call *c)
{
    enum dtype d = promoted(c), given;
    switch (c->op->shape.dtype) {
    case OUT_PROMOTE: return d;
    case OUT_FLOAT: return d == DT_NONE || dtype_is_float(d) ? d : DT_F32;
    case OUT_BOOL: return DT_BOOL;
    case OUT_I64: return DT_I64;
    case OUT_SUM: given = given_dtype(c); return given ? given : d == DT_NONE || dtype_is_float(d) ? d : DT_I64;
    case OUT_IN0: return c->nin > 0 ? (enum dtype)c->in[0].dtype : DT_NONE;
    case OUT_IN1: return c->nin > 1 ? (enum dtype)c->in[1].dtype : DT_NONE;
    case OUT_ATTR: given = given_dtype(c); return given ? given : d;
    }
    return d;
}

/* ---- checking a complete call ---- */

/* Makes the rule of a source operator. A source has no operands, so all letters of the result are new, with the
 * sizes of the call. */
static int
source_rule(struct arena *a, const struct call *c, struct rule *r)
{
    struct op op = *c->op;
    struct call named = *c;
    struct str text = {0};
    int64_t size[RULE_FACTOR];
    int n = 0;
    for (int i = 0; i < c->nin; i++) str_add(&text, i ? ",=" : "=");
    str_add(&text, c->nin ? "->" : "=->");
    for (int k = 0; k < c->nout; k++) {
        if (k) str_add(&text, ",");
        for (int d = 0; d < c->out[k].ndim; d++, n++) {
            str_addf(&text, "%c", n < 26 ? 'a' + n : 'A' + n - 26);
            size[n] = c->out[k].dim[d];
        }
    }
    op.shape.rule = str_text(&text);
    named.op = &op;
    int status = rule_of_call(a, &named, size, r);
    str_free(&text);
    return status;
}

static int
call_rule(struct arena *a, const struct call *c, const int64_t *size, struct rule *r)
{
    bool source = c->op->flags & OP_SOURCE && !c->op->shape.rule && !c->op->shape.make_rule;
    return source ? source_rule(a, c, r) : rule_of_call(a, c, size, r);
}

/* Fails with the last error text again, between the operator's name and the list of operands. */
static int
call_refuse(const struct call *c)
{
    struct str all = {0};
    call_print_operands(c, &all);
    int status = fail(err_last(), "%s: %s%s%s", c->op->name, err_text(), all.len ? "; " : "", str_text(&all));
    str_free(&all);
    return status;
}

int
call_infer(struct arena *a, struct call *c, struct rule *r)
{
    for (int i = 0; i < c->nin; i++) TRY(check_operand(c, i));
    enum dtype d = out_dtype(c);
    for (int k = 0; k < c->nout; k++) c->out[k].dtype = (uint8_t)d, c->out[k].weak = 0;
    int64_t size[RULE_FACTOR];
    for (int f = 0; f < RULE_FACTOR; f++) size[f] = -1;
    if (c->op->shape.infer) TRY(c->op->shape.infer(c, size));
    TRY(call_rule(a, c, size, r));
    for (int k = 0; k < c->nout; k++) {
        rule_shape(r, k, &c->out[k]);
        if (type_check(&c->out[k])) return call_refuse(c);
    }
    return 0;
}
