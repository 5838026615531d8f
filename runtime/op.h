/* op.h - the operator record: all that an operator means, in one const struct.
 *
 * kernels/op/NAME.c holds one record (op_NAME) and kernels/op/ops.def lists it.
 * Nothing anywhere asks which operator a node has: it reads the record.
 *
 * The heart is the dimension rule, an einsum-like string (sbp/rule.h):
 *   "mk,kn->mn"   a letter is a factor; equal letters have equal size
 *   "a[b]c->a[b]c" [x] must stay unsplit
 *   "ab,1b->ab"   1 is a size-one dimension
 *   "ab->a"       the operator reduces a letter missing on the right (split only if .reduce says how)
 *   "(ab)c->abc"  a merged dimension, major factor first
 *   "a->a[n]"     a letter only on the right is new, and unsplit; its size comes from infer()
 *   "a->an+"      new, but a rank may make its part of it: ref knows the part by the offset of its view
 *   "ab,=->ab"    an operand that is absent or a number: its place is "=" and it takes no part
 *
 * A primitive has a rule, ref and (most) a grad. A composite has only build(), which writes it with other operators:
 * its signatures, kernels and gradient come from them. A record is constant: any thread reads it. */
#ifndef RILLE_RUNTIME_OP_H
#define RILLE_RUNTIME_OP_H

#include "runtime/layout.h"
#include "runtime/view.h"

enum { OP_OPERAND = 12, OP_ATTR = 8, OP_SAMPLE = 10, OP_OUT = 4, ATTR_LIST = 16 };

/* ---- operands ---- */

enum {
    IN_NUMBER = 1,   /* a Lua number may stand here: a weak type, bound at run time */
    IN_OPTIONAL = 2, /* may be absent (nil) */
    IN_LIST = 4,     /* any number of tensors, at least one; the only such operand, and the last */
    IN_INDEX = 8,    /* must have an integer dtype (positions, labels) */
    IN_HIDDEN = 16,  /* the session fills it in (seed and ordinal of a random operator), the user never passes it */
    IN_FLOAT = 32,   /* must have a float dtype */
};
struct operand {
    const char *name;
    unsigned flags;
};

/* ---- attributes ---- */

enum attr_kind {
    ATTR_NONE,
    ATTR_INT,
    ATTR_FLOAT,
    ATTR_BOOL,
    ATTR_TEXT,  /* one of the words in def.text, separated by '|'; the first is the default */
    ATTR_INTS,  /* list of integers; a single integer is a list of one */
    ATTR_DTYPE, /* value in i */
};
enum {
    ATTR_REQUIRED = 1,
    ATTR_AXIS = 2, /* INT, INTS: axes of operand 0 (ATTR_AXIS_NEW: of one dimension more). Before anybody sees them the
                    * session makes negative ones positive and refuses those out of range. */
    ATTR_AXIS_NEW = 4,
    ATTR_ABSENT = 8,  /* "not set" has a meaning of its own, which doc tells: pages show no default */
    ATTR_HIDDEN = 16, /* users do not see it: others of a family that shares them need it, or a mode sets it */
};
struct attr {
    bool set;  /* the user gave it; otherwise it holds the default */
    int32_t n; /* ATTR_INTS: how many */
    int64_t i; /* INT, BOOL, DTYPE; TEXT: which word */
    double f;
    int64_t list[ATTR_LIST];
};
struct attr_def {
    const char *name;
    enum attr_kind kind;
    unsigned flags;
    int64_t i; /* defaults; an INTS default is unset (n = 0) */
    double f;
    const char *text;
    const char *doc;
};

/* ---- a call: an operator with its operands' global types, as every callback sees it ---- */

struct call {
    const struct op *op;
    int nin, nout;
    const struct type *in; /* dtype DT_NONE: absent; weak: a number */
    struct type *out;      /* dtype and, after shape inference, shape */
    const struct attr *attr;
    const struct layout *const *layout; /* layouts of the operands (NULL for numbers, absent); NULL when unknown */
    const uint8_t *same; /* same[i] <= i: operand i is the same value as that one, and moves once; NULL: all differ */
};

/* How the dtype of the outputs follows from the operands (infer() may say otherwise). */
enum out_dtype {
    OUT_PROMOTE, /* promotion of all operands */
    OUT_FLOAT,   /* the same, integers and bools give f32 */
    OUT_BOOL,
    OUT_I64,
    OUT_SUM,  /* the attribute named dtype; without it integers and bool give i64, floats stay */
    OUT_IN0,  /* as operand 0 */
    OUT_IN1,  /* as operand 1 */
    OUT_ATTR, /* the attribute named dtype */
};

/* ---- computing ---- */

/* How operands that are micro-batches lie in their batch: the rows (dimension 0) of piece k are, of each of `cut` equal
 * parts of the batch's rows, the k-th of n. */
struct pieces {
    int32_t n, cut;
    uint32_t of; /* bit i: operand i is a piece */
};

/* What a kernel found wrong in its data: the first place. It lies where device and host reach it. */
struct finding {
    int64_t at;       /* 1 + its position in the local part, row by row; 0: nothing is wrong */
    int64_t value[2]; /* what is there; the least that is allowed */
};

/* The values that elements of an operand may have: count of them from lo on (after the greatest comes the least), and
 * one more. */
struct allowed {
    int operand;
    int after; /* 1 + the operand, a number, than which they must be greater; 0: they begin at lo */
    int64_t lo;
    uint64_t count;
    const int64_t *also; /* NULL: none */
};

/* One rank's work: the global call, and the local views of what it reads and writes. in[i].dtype is DT_NONE where
 * absent. A number is a view of no dimensions whose data is a double (F64) or an int64_t (I64). */
struct kcall {
    const struct call *call;
    const struct view *in;
    const struct view *out;
    void *scratch;        /* scratch_bytes of it, 64-byte aligned */
    uint64_t piece;       /* which micro-batch; random operators count it in */
    struct pieces pieces; /* for messages, which tell positions in what the user gave */
    int threads;          /* how many threads the kernel may use (oneDNN) */
    bool adds;            /* result 0, f32, is a sum over the pieces: those after the first are added to it */
    bool unread;          /* nothing of the run reads the results: they need not stay in caches */
    struct finding *find; /* comes as zeros; operators that have say() write it; NULL: nobody wants to know */
};

/* A fast way to compute an operator. exec.c takes the first, in order, whose accepts() says yes. It sees strided
 * views; one that wants dense memory says no to others (or sets dense_in: exec.c copies). */
struct kernel_variant {
    const char *name;                            /* "dnnl", "avx512"; for explain and bench */
    int device;                                  /* its kind: DEV_CPU, ... */
    bool dense_in;                               /* exec.c makes operands dense before run(), */
    bool (*takes)(const struct kcall *k, int i); /* but for those of which this says yes, as they lie; may be NULL */
    bool (*accepts)(const struct kcall *k);
    /* Makes what run() needs for these shapes and strides (oneDNN primitives); may be NULL. The session thread calls it
     * at compile time; drop frees *state. *scratch_bytes starts at 0. */
    int (*prepare)(const struct kcall *k, void **state, size_t *scratch_bytes);
    int (*run)(const struct kcall *k, const void *state); /* device thread; E_KERNEL after fail() */
    /* After run(): are there values by which ref may give something else (zeros that ref does not multiply by an
     * infinity)? Then exec.c computes the call by ref. NULL: never. */
    bool (*doubts)(const struct kcall *k);
    void (*drop)(void *state);
};

/* What libraries of products know of what may follow one: v + x, v x, gelu(v) by tanh and its derivative. */
enum follow { FOLLOW_NONE, FOLLOW_ADD, FOLLOW_MUL, FOLLOW_GELU, FOLLOW_GELU_SLOPE, FOLLOW_CAST };

/* Element-wise operators: y = f(x0, x1, x2). kernels/cpu/eltwise.c computes them block by block and fuses chains. The
 * compute type of a call is f64, f32 (also for bf16, f16), or i64 (integers and bool), by promotion of its operands; f
 * is the meaning for reals, i for integers (NULL: f computes integers too). c gives attributes. The texts are their
 * bodies, for compilers of other machines (kernels/op/eltwise.h). */
struct eltwise {
    double (*f)(const struct call *c, const double *x);
    int64_t (*i)(const struct call *c, const int64_t *x);
    const char *f_text, *i_text;
    /* Fast, optional: if it is plain arithmetic, which (enum tile_op of kernels/cpu/tile.h); else for f32 and f64
     * functions of blocks: n contiguous elements; operand k at x[k]; y may be one of them. */
    int tile;
    void (*block_f32)(const struct call *c, int64_t n, const float *const *x, float *y);
    void (*block_f64)(const struct call *c, int64_t n, const double *const *x, double *y);
    /* Another of the same one operand and attributes, as its derivative is, whose values come with little work more
     * (NULL: none): it is computed where this one is, by f32_beside, which gives both, this one's in y, which may be x.
     */
    const struct op *beside;
    void (*f32_beside)(const struct call *c, int64_t n, const float *x, float *y, float *beside);
    enum follow (*follow)(const struct call *c); /* NULL: no library knows it */
};

/* A pass over lines, for machines that compile texts: of operand 0 (of == 0) or of result of - 1, along the dimensions
 * that dims says (NULL: those of the record's line, of a result the last). It keeps so many numbers of each of its
 * lines for the pass after it. parted: a line may be cut, and what the body computes of each part is joined by the pass
 * after it. lanes: the body holds as well of numbers of several lines that lie side by side. copies: it gives result 0
 * what operand 0 has, and is left out where they are one memory. The last pass of a list has no body. */
struct line_pass {
    const char *body;
    int of;
    void (*dims)(const struct call *c, bool *gone);
    uint32_t writes; /* bit i: result i */
    int keeps;
    bool parted, lanes, copies;
};

/* ---- the record ---- */

struct node;
struct val;
struct build;
struct line_call;

enum {
    OP_ELTWISE = 1,          /* .eltwise is set; ref comes from it */
    OP_VIEW = 2,             /* out[0] is a strided window of in[0]: .view gives it; no task */
    OP_RANDOM = 4,           /* the last two operands are hidden: seed, ordinal */
    OP_SOURCE = 8,           /* no tensor operands: the call gives placement and sbp */
    OP_INPLACE = 32,         /* it may write out[k] over in[k] for k < ninplace, element by element (adamw, sgd) */
    OP_MOVE = 64,            /* to_global: the call asks for the output's layout; it computes nothing */
    OP_HIDDEN = 128,         /* users do not see it (gradient helpers) */
    OP_UPDATE = 256,         /* acts once a batch on accumulated values (optimisers) */
    OP_BOUNDED_DOMAIN = 512, /* its domain has a bound (log, sqrt). The identity of max or min may lie outside it, so
                              * P(max) and P(min) do not propagate */
    OP_NARROW = 1024,        /* under autocast it takes float operands in 16 bits: a product */
    OP_WIDE = 2048,          /* under autocast it takes operands of 16 bits as f32: it adds up, or raises to powers */
    OP_UNPLACED = 4096,      /* its values do not depend on where a part lies: ranks may share a kernel */
    OP_NONZERO = 8192,       /* no element of its result is 0: integers may divide by it as it is */
    OP_LEADS = 16384,        /* a chain of element-wise operators may go on with its first result: a product, or, where
                              * kernels are compiled, what goes along lines and writes that, of operand 0's shape, in
                              * each_of; it checks no data */
    OP_FOLLOWS = 32768,   /* a task of a product may end with it: it has one result, which it may write over operand 0,
                           * and that may be the product's */
    OP_ANY_ORDER = 65536, /* dimensions of its operands and results may lie in any order, at no cost; where kernels are
                           * compiled, the last one stays the last */
};

/* How the windows of a convolution move over an image, and what is computed: operands that are its image, its kernel
 * and its result, of which one is -1, since the call gives it. By height and width. */
struct convolution {
    int image, kernel, result;
    int64_t stride[2], padding[2], dilation[2];
};

struct op {
    const char *name;
    const char *doc;    /* one line: what it computes, as a formula */
    const char *source; /* where it is from, or NULL */
    struct operand in[OP_OPERAND];
    int nout; /* 0 means 1 */
    struct attr_def attr[OP_ATTR];

    /* What corresponds to what. */
    const char *rule; /* or: */
    int (*make_rule)(const struct call *c, struct str *rule);
    /* Checks attributes against operands (E_ATTR, E_SHAPE), and sets what the rule cannot say: dtypes of outputs, and
     * with *size the sizes of letters that stand only on the right, in the order in which they appear there. */
    int (*infer)(const struct call *c, int64_t *size);
    enum out_dtype dtype;
    /* Which dtypes its operands may have; NULL: all. A set of class letters and names: "F", "FI", "FIB". */
    const char *accepts;

    /* How partial values pass. '|' separates groups, hexadecimal digits name operands: "0|1" linear in operand 0 alone
     * and in 1 alone; "01" in both together, "*" in all tensors together. linear carries P(sum); increasing carries
     * P(max) and P(min) (where the operator reduces a factor, only the kind of that reduction); decreasing carries them
     * crosswise. */
    const char *linear, *increasing, *decreasing;
    const char *(*linear_of)(const struct call *c); /* where it depends on the call; overrides linear */
    enum reduce reduce; /* what a split of a reduced factor leaves; RED_NONE: it may not be split */
    enum reduce (*reduce_of)(const struct call *c);
    uint32_t sums; /* of several results: bit k: result k is a sum over what RED_SUM reduces, f32 until it is whole */

    /* How it differentiates: builds nodes. dout[k] is NULL where no gradient comes; din[i] stays NULL where there is
     * none. din arrives all NULL. saves: which operands ('0'..) and outputs ('a'..) the gradient reads, e.g. "1a". */
    void (*grad)(struct build *b, const struct node *n, struct val *const *dout, struct val **din);
    const char *saves;
    /* The result of node n with its two dimensions exchanged, as another call of its own; NULL: it has none. With it
     * the gradient of a transposed weight comes as the weight lies, not as a view that every reader strides over. */
    struct val *(*transposed)(struct build *b, const struct node *n);
    /* The result of node n, which rounds its sums to 16 bits, as f32: another call of its own, without that rounding.
     * With it the gradient of a weight that products take in 16 bits comes as f32. NULL: it has none. */
    struct val *(*unrounded)(struct build *b, const struct node *n);

    /* The value that a call on x gives where it is there already: x (a cast to the dtype that it has), or the operand
     * of the call that gave x (a transpose of a transpose). NULL: it is not. before: the call that gave x, NULL where
     * nobody knows it any more. */
    struct val *(*fold)(const struct call *c, struct val *x, const struct node *before);

    /* Takes over work of what makes its operands: in `in`, which has room for all that the record has, puts for an
     * operand without a value yet those that it comes from. Returns the number of operands. NULL: it never does. */
    int (*absorb)(struct val **in, int nin);

    /* The sum of what two calls of it give, x and y, with less work than an addition of both: gradients that meet at a
     * value. NULL: there is none. */
    struct val *(*plus)(struct build *b, const struct node *x, const struct node *y);
    /* The same of x and what node n gives, whatever made x. */
    struct val *(*onto)(struct build *b, const struct node *n, struct val *x);

    /* A composite: builds itself from other operators; writes nout values. NULL in out[0] without failure: this call is
     * not a composite after all (then rule, ref... are there). */
    int (*build)(struct build *b, const struct call *c, struct val *const *in, struct val **out);

    /* Writes the same call with others that work in parts, where a layout cuts an axis that must stay unsplit (out[0]
     * stays NULL where none does). The session takes it where it moves fewer bytes. */
    int (*split_form)(struct build *b, const struct call *c, struct val *const *in, struct val **out);

    /* How to compute it. ref: one obvious loop; sees dense views, floats as f64, integers and bools as i64. */
    int (*ref)(const struct kcall *k);
    struct eltwise eltwise;
    /* What it folds the dimensions of its attribute axis with (kernels/cpu/reduce.h); RED_NONE: it does not. */
    enum reduce folds;
    /* Of others, what machines that compile texts compute (kernels/cuda/source.h): bodies in C++. element: the value at
     * a position of the result; line: all of one line of operand 0, along the dimensions that line_dims says (NULL: the
     * attribute axis, or else the last); product: what a product of matrices reads and where it writes. All NULL: the
     * host computes the call for them. */
    const char *element, *line, *product;
    const struct line_pass *pass; /* or lines in several passes */
    const char *attends[2];       /* of halves: the templates of kernels/cuda/attention.cuh, one a pass */
    void (*line_dims)(const struct call *c, bool *gone);
    void (*convolution)(const struct call *c, struct convolution *w); /* of a convolution or a gradient of one; pure */
    uint32_t halves; /* bit i: of operand i, halves that were cast to f32, it may as well read the halves: it computes
                      * in f32, and its results are the same */
    uint32_t by_position; /* bit i: operand i does not lie along lines, and a line's body reads it by its positions */
    /* Of an operator whose result is its operands side by side: the window of out[0] that operand i fills, and in *skip
     * where it begins (elements). */
    void (*window)(const struct kcall *k, int i, struct view *window, int64_t *skip);
    /* Operators that check data: ref and run() leave in k->find what is wrong, and go on with results that harm nobody;
     * say, on the host and later, makes E_VALUE of it; there k's views have no data. Updates wait for it. */
    int (*say)(const struct kcall *k, const struct finding *f);
    void (*allows)(const struct kcall *k, struct allowed *a); /* what is right; k's views need no data */
    /* OP_VIEW: fills out[0]'s strides and *skip (elements from the start of in[0]) for local shards. E_STATE when
     * in[0]'s strides cannot show it (a reshape of a transpose): then it is a task like any other, and exec_new copies.
     */
    int (*view)(const struct call *c, const struct view *in, struct view *out, int64_t *skip);
    /* What its variant "lines" does to each line of a call (kernels/cpu/lines.h); false: the lines do not lie together.
     */
    bool (*lines)(const struct kcall *k, struct line_call *c);
    const struct kernel_variant *kernel; /* ends with a variant whose name is NULL; may be NULL */
    int ninplace;
    unsigned flags;
    double (*flops)(const struct call *c); /* default: 2 at each of rule_points() */

    /* The tests try: "f32{4,6} f32{6,8}", "f32{4,6} axis=0", "i64{5}<7 f32{7,3}" (values below 7), "f32{4}>0.5" (above
     * 0.5), "-" absent, "#2.5" a number. At least two, one awkward. */
    const char *sample[OP_SAMPLE];
};

/* What an element-wise call does to its first operand, where that has a name. */
static inline enum follow
call_follow(const struct call *c)
{
    return c->op->eltwise.follow ? c->op->eltwise.follow(c) : FOLLOW_NONE;
}

/* Gradients and composites build with it (kernels/op/build.h has one helper an operator). It belongs to a session and
 * its thread. */
struct build {
    /* Adds a node; NULL after a failure, and then for every later call (sticky): check once at the end. in[i] may be
     * NULL (absent). Several outputs: res has room for op's nout. */
    struct val *(*add)(struct build *b, const struct op *op, int nin, struct val *const *in, const struct attr *attr,
                       struct val **res);
    struct val *(*number)(struct build *b, double f);   /* a weak float */
    struct val *(*integer)(struct build *b, int64_t i); /* a weak integer */
    bool failed;
};

/* Read off a record what it says (runtime/op.c). */
int op_nattr(const struct op *op);
bool op_is_placed(const struct op *op); /* its values may depend on where in the global tensor a part lies */
int op_noperand(const struct op *op);
int op_attr_find(const struct op *op, const char *name); /* index or -1 */
void op_attr_defaults(const struct op *op, struct attr *attr);
bool op_attr_same(const struct op *op, const struct attr *a, const struct attr *b); /* to the bit */

#endif
