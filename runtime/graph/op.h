/* op.h - the operator record: everything that defines an operator, in one const struct.
 *
 * kernels/op/NAME.c defines a record (op_NAME), and kernels/op/lib/ops.def lists it. No other code tests which operator
 * a node has: it reads the record.
 *
 * The central field is the dimension rule, an einsum-like string (sbp/rule.h):
 *
 *   "mk,kn->mn"   a letter is a factor; equal letters have equal size
 *   "a[b]c->a[b]c" [x] must stay unsplit
 *   "ab,1b->ab"   1 is a size-one dimension
 *   "ab->a"       the operator reduces a letter missing on the right (split only if .reduce says how)
 *   "(ab)c->abc"  a merged dimension, major factor first
 *   "a->a[n]"     a letter only on the right is new, and unsplit; infer() sets its size
 *   "a->an+"      new, but may be split: ref computes a rank's shard, which it knows by the offset of its view
 *   "ab,=->ab"    "=": an operand that is absent or a number, and is ignored by the rule
 *
 * A primitive has a rule, ref and (usually) a grad. A composite has only build(), which expresses it by other
 * operators: signatures, kernels and gradient follow from those. A record is constant; any thread may read it. */
#ifndef RILLE_RUNTIME_OP_H
#define RILLE_RUNTIME_OP_H

#include "runtime/tensor/layout.h"
#include "runtime/tensor/view.h"

enum { OP_OPERAND = 12, OP_ATTR = 8, OP_SAMPLE = 10, OP_OUT = 4, ATTR_LIST = 16 };

/* ---- operands ---- */

enum {
    IN_NUMBER = 1,   /* accepts a Lua number: a weak type, bound at run time */
    IN_OPTIONAL = 2, /* may be absent (nil) */
    IN_LIST = 4,     /* any number of tensors, at least one; only the last operand may be a list */
    IN_INDEX = 8,    /* must have an integer dtype (positions, labels) */
    IN_HIDDEN = 16,  /* set by the session (seed and ordinal of a random operator), never passed by the user */
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
    ATTR_AXIS = 2, /* INT, INTS: axes of operand 0 (ATTR_AXIS_NEW: of a tensor with one more dimension). The session
                      makes negative axes positive and rejects those out of range before other code sees them. */
    ATTR_AXIS_NEW = 4,
    ATTR_ABSENT = 8,  /* "not set" has a meaning of its own, described in doc; help pages show no default */
    ATTR_HIDDEN = 16, /* hidden from users: needed by others of a family that shares the attributes, or set by a mode */
};
struct attr {
    bool set;  /* true if the user passed it; false: the default */
    int32_t n; /* ATTR_INTS: length */
    int64_t i; /* INT, BOOL, DTYPE; TEXT: index of the word */
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

/* How the dtype of the outputs follows from the operands, unless infer() sets it. */
enum out_dtype {
    OUT_PROMOTE, /* promotion of all operands */
    OUT_FLOAT,   /* as OUT_PROMOTE, but f32 for integers and bools */
    OUT_BOOL,
    OUT_I64,
    OUT_SUM,  /* the attribute dtype; without it i64 for integers and bools, unchanged for floats */
    OUT_IN0,  /* as operand 0 */
    OUT_IN1,  /* as operand 1 */
    OUT_ATTR, /* the attribute named dtype */
};

/* ---- computing ---- */

/* Position of micro-batch operands in their batch: micro-batch k is the k-th of n parts of each of `cut` equal parts
 * of the batch's rows (dimension 0). */
struct pieces {
    int32_t n, cut;
    uint32_t of; /* bit i: operand i is a micro-batch */
};

/* The first error that a kernel found in its data, in memory shared by device and host. */
struct finding {
    int64_t at;       /* 1 + row-major index in the shard; 0: no error */
    int64_t value[2]; /* the value found; the least allowed value */
};

/* The allowed values of an operand: `count` values from lo on (wrapping from the greatest to the least), and one
 * more. */
struct allowed {
    int operand;
    int after; /* 1 + index of a number operand that values must exceed; 0: values begin at lo */
    int64_t lo;
    uint64_t count;
    const int64_t *also; /* NULL: none */
};

/* One rank's work: the global call, and local views of its inputs and outputs. in[i].dtype is DT_NONE if absent. A
 * number is a view of no dimensions whose data is a double (F64) or an int64_t (I64). */
struct kcall {
    const struct call *call;
    const struct view *in;
    const struct view *out;
    void *scratch;        /* scratch memory of scratch_bytes, 64-byte aligned */
    uint64_t piece;       /* micro-batch number, which random operators count in */
    struct pieces pieces; /* for messages, which report positions in the user's tensors */
    int threads;          /* maximum number of threads of the kernel (oneDNN) */
    bool adds;            /* result 0, f32, is a sum over micro-batches, to which each later micro-batch adds */
    bool find_nan;        /* results are searched for NaN, and for infinities that no operand has */
    bool unread;          /* no task of the run reads the results, so they need not stay in caches */
    struct finding *find; /* zero-initialised; written by operators with say(); NULL: do not check */
};

/* A fast implementation of an operator. exec.c uses the first, in order, whose accepts() returns true. Variants
 * receive strided views. A variant that needs dense memory rejects strided views, or sets dense_in to have them
 * copied. */
struct kernel_variant {
    const char *name;                            /* "dnnl", "avx512"; for explain and bench */
    int device;                                  /* device kind: DEV_CPU, ... */
    bool dense_in;                               /* exec.c makes operands dense before run(), */
    bool (*takes)(const struct kcall *k, int i); /* except operands for which takes() returns true; NULL: none */
    bool (*accepts)(const struct kcall *k);
    /* Creates what run() needs for these shapes and strides (oneDNN primitives); may be NULL. Called by the
     * session's thread at compile time; drop frees *state. *scratch_bytes is 0 initially. */
    int (*prepare)(const struct kcall *k, void **state, size_t *scratch_bytes);
    int (*run)(const struct kcall *k, const void *state); /* device thread; E_KERNEL after fail() */
    /* Returns true, after run(), if some values may differ from those of ref (zeros that ref does not multiply by an
     * infinity). exec.c then computes the call by ref. NULL: never. */
    bool (*doubts)(const struct kcall *k);
    void (*drop)(void *state);
};

/* Epilogues that product libraries support: v + x, v x, gelu(v) by tanh and its derivative. */
enum follow { FOLLOW_NONE, FOLLOW_ADD, FOLLOW_MUL, FOLLOW_GELU, FOLLOW_GELU_SLOPE, FOLLOW_CAST };

/* Element-wise operators: y = f(x0, x1, x2). kernels/cpu/eltwise/eltwise.c computes them block by block and fuses
 * chains. The compute type of a call is f64, f32 (also for bf16, f16), or i64 (integers and bool), by promotion of
 * its operands. f is the definition for reals, i for integers (NULL: f computes integers too). c gives attributes.
 * The texts are the bodies of f and i, for compilers of other machines (kernels/op/lib/eltwise.h). */
struct eltwise {
    double (*f)(const struct call *c, const double *x);
    int64_t (*i)(const struct call *c, const int64_t *x);
    const char *f_text, *i_text;
    /* Optional, fast: tile_op of plain arithmetic (kernels/cpu/eltwise/tile.h), or f32 and f64 functions of blocks:
     * n contiguous elements; operand k at x[k]; y may alias an operand. */
    int tile;
    void (*block_f32)(const struct call *c, int64_t n, const float *const *x, float *y);
    void (*block_f64)(const struct call *c, int64_t n, const double *const *x, double *y);
    /* An operator of the same single operand and attributes that costs little extra, for example the derivative.
     * f32_beside computes both operators, with this operator's result in y, which may alias x. NULL: none. */
    const struct op *beside;
    void (*f32_beside)(const struct call *c, int64_t n, const float *x, float *y, float *beside);
    enum follow (*follow)(const struct call *c); /* NULL: no library supports it */
};

/* A pass over lines, for machines that compile kernel texts. Lines are cut from operand 0 (of == 0) or from result
 * of - 1, along the dimensions that `dims` sets (NULL: those of line_dims; for a result, the last). keeps: numbers
 * per line stored for the next pass. parted: a line may be cut into parts, and the next pass joins the numbers of
 * the parts. lanes: the body also works on several adjacent lines at once. copies: the pass copies operand 0 to
 * result 0, and is omitted if both share memory. A list of passes ends with body NULL. */
struct line_pass {
    const char *body;
    int of;
    void (*dims)(const struct call *c, bool *gone);
    uint32_t writes; /* set of the results that the pass writes */
    int keeps;
    bool parted, lanes, copies;
};

/* ---- the record ---- */

struct node;
struct val;
struct build;
struct line_call;

enum {
    OP_ELTWISE = 1,          /* .eltwise is set; ref follows from it */
    OP_VIEW = 2,             /* out[0] is a strided view of in[0], see .view; no task */
    OP_RANDOM = 4,           /* the last two operands are hidden: seed, ordinal */
    OP_SOURCE = 8,           /* no tensor operands: the call specifies placement and sbp */
    OP_INPLACE = 32,         /* may write out[k] over in[k] for k < ninplace, element by element (adamw, sgd) */
    OP_MOVE = 64,            /* to_global: the call specifies the output's layout; computes nothing */
    OP_HIDDEN = 128,         /* hidden from users (gradient helpers) */
    OP_UPDATE = 256,         /* acts once per batch on accumulated values (optimisers) */
    OP_BOUNDED_DOMAIN = 512, /* bounded domain (log, sqrt). The identity of max or min may be outside it, so P(max) and
                                P(min) do not propagate */
    OP_NARROW = 1024,        /* autocast: casts float operands to 16 bits (products) */
    OP_WIDE = 2048,          /* autocast: casts 16-bit operands to f32 (sums and powers) */
    OP_UNPLACED = 4096,      /* values do not depend on the position of a shard: ranks may share a kernel */
    OP_NONZERO = 8192,       /* no element of the result is 0: safe as an integer divisor */
    OP_LEADS = 16384,        /* element-wise operators may follow its first result in one chain: a product, or, where
                              * kernels are compiled, an operator along lines that writes this result, in operand 0's
                              * shape, by each_of; checks no data */
    OP_FOLLOWS = 32768,      /* can end a product's task: has one result, which may overwrite operand 0, the product's
                              * result */
    OP_ANY_ORDER = 65536, /* operands and results may have their dimensions in any order at no cost; where kernels are
                           * compiled, the last dimension must stay last */
};

/* A convolution: indices of the operands that are its image, kernel and result (-1: the result of this call), and
 * how windows move, by height and width. */
struct convolution {
    int image, kernel, result;
    int64_t stride[2], padding[2], dilation[2];
};

/* How the dimensions, sizes and dtypes of the results follow from the operands. */
struct op_shape {
    const char *rule; /* or: */
    int (*make_rule)(const struct call *c, struct str *rule);
    /* Checks attributes against operands (E_ATTR, E_SHAPE), and sets what the rule cannot express: dtypes of
     * outputs, and in *size the sizes of letters that occur only on the right, in order of occurrence. */
    int (*infer)(const struct call *c, int64_t *size);
    enum out_dtype dtype;
    /* Allowed dtypes of operands, as class letters and names: "F", "FI", "FIB". NULL: all. */
    const char *accepts;
};

/* How partial values pass through the operator. '|' separates groups, hexadecimal digits name operands: "0|1" linear
 * in operand 0 alone and in 1 alone; "01" linear in both together; "*" in all tensors together. linear carries
 * P(sum); increasing carries P(max) and P(min) (where the operator reduces a factor, only the kind of that
 * reduction); decreasing carries them crosswise. */
struct op_partial {
    const char *linear, *increasing, *decreasing;
    const char *(*linear_of)(const struct call *c); /* linear, if it depends on the call; overrides linear */
    enum reduce reduce; /* reduction that a split of a reduced factor leaves; RED_NONE: no split */
    enum reduce (*reduce_of)(const struct call *c);
    uint32_t sums; /* several results: bit k: result k is a sum over the RED_SUM factor, f32 until complete */
};

/* build: builds the nodes of the gradient. dout[k] is NULL where no gradient arrives; din[i] is initially NULL, and
 * stays NULL where there is none. saves: operands ('0'..) and outputs ('a'..) that the gradient reads, e.g. "1a". */
struct op_grad {
    void (*build)(struct build *b, const struct node *n, struct val *const *dout, struct val **din);
    const char *saves;
};

/* Other calls that compute the same with less work; each may be NULL. */
struct op_rewrite {
    /* Returns the result of node n with its two dimensions exchanged, by another call; NULL: not possible. Otherwise
     * the gradient of a transposed weight would be a transposed view, and all its readers would access strided
     * memory. */
    struct val *(*transposed)(struct build *b, const struct node *n);
    /* Returns the result of node n in f32, by another call; n rounds its sums to 16 bits. So weights that products
     * read in 16 bits get f32 gradients. NULL: not possible. */
    struct val *(*unrounded)(struct build *b, const struct node *n);
    /* Returns an existing value that equals the result of a call on x: x (a cast to its own dtype), or the operand
     * of the call that produced x (a transpose of a transpose). NULL: none. before: the call that produced x; NULL:
     * forgotten. */
    struct val *(*fold)(const struct call *c, struct val *x, const struct node *before);
    /* Absorbs the operators that produce operands: replaces operands without a value in `in`, which has room for all
     * operands of the record, by the inputs of their operators. Returns the number of operands. */
    int (*absorb)(struct val **in, int nin);
    /* Returns the sum of the results of two calls of this operator, x and y, with less work than an addition: for
     * gradients that are added at a value. NULL: none. */
    struct val *(*plus)(struct build *b, const struct node *x, const struct node *y);
    /* Returns the sum of x, from any operator, and the result of node n likewise. */
    struct val *(*onto)(struct build *b, const struct node *n, struct val *x);
};

/* How the host computes a call. */
struct op_host {
    int (*ref)(const struct kcall *k); /* one obvious loop over dense views: floats as f64, integers and bools as i64 */
    enum reduce
        folds; /* reduction over the dimensions of the attribute axis (kernels/cpu/rows/reduce.h), or RED_NONE */
    const struct kernel_variant *kernel; /* ends with a variant whose name is NULL; may be NULL */
    /* Describes the work of variant "lines" on each line of a call (kernels/cpu/rows/lines.h); false: the lines are not
     * contiguous. */
    bool (*lines)(const struct kcall *k, struct line_call *c);
    /* OP_VIEW: fills out[0]'s strides and *skip (elements from the start of in[0]) for local shards. E_STATE if
     * strides cannot express the view (a reshape of a transpose); the call is then an ordinary task, and exec_new
     * copies. */
    int (*view)(const struct call *c, const struct view *in, struct view *out, int64_t *skip);
    /* Operators whose result is the concatenation of their operands: returns the window of out[0] that operand i
     * fills, and in *skip its first element. */
    void (*window)(const struct kcall *k, int i, struct view *window, int64_t *skip);
    /* Operators that check data: ref and run() report errors in k->find, and continue with harmless results. say
     * turns the report into E_VALUE, on the host and later, when k's views have no data. Updates wait for the check. */
    int (*say)(const struct kcall *k, const struct finding *f);
    void (*allows)(const struct kcall *k, struct allowed *a); /* sets the allowed values; k's views need no data */
};

/* How machines that compile texts compute a call (kernels/cuda/source.h), besides eltwise and folds: bodies in C++.
 * All NULL: the host computes the call instead. */
struct op_gpu {
    const char *element;          /* body: the value at a position of the result */
    const char *line;             /* body: a complete line of operand 0 */
    const struct line_pass *pass; /* bodies: lines in several passes */
    void (*line_dims)(const struct call *c,
                      bool *gone); /* dimensions of a line; NULL: the attribute axis, or the last */
    uint32_t by_position;          /* set of operands that are not cut into lines; a body reads them by position */
    const char *product;           /* body: operands and result of a matrix product */
    const char *attends[2];        /* 16-bit floats: the templates of kernels/cuda/attention.cuh, one per pass */
    void (*convolution)(const struct call *c, struct convolution *w); /* convolutions and their gradients; pure */
    uint32_t halves; /* set of operands, halves cast to f32, that the operator can read as halves with the same results,
                        because it computes in f32 */
};

struct op {
    const char *name;
    const char *doc;    /* formula, one line */
    const char *source; /* paper or other source; NULL: none */
    struct operand in[OP_OPERAND];
    int nout; /* number of results; 0 means 1 */
    struct attr_def attr[OP_ATTR];
    unsigned flags;
    int ninplace; /* OP_INPLACE: number of results that may overwrite operands */

    struct op_shape shape;
    struct op_partial partial;
    struct op_grad grad;
    struct op_rewrite rewrite;

    /* Builds a composite from other operators; writes nout values. out[0] left NULL without a failure: the call is a
     * primitive (and rule, ref... are set). */
    int (*build)(struct build *b, const struct call *c, struct val *const *in, struct val **out);
    /* Builds the same call from others that work on shards, for layouts that split an axis which must stay unsplit
     * (out[0] stays NULL if no such axis is split). The session uses the form that moves fewer bytes. */
    int (*split_form)(struct build *b, const struct call *c, struct val *const *in, struct val **out);

    struct eltwise eltwise; /* OP_ELTWISE: definition for host and GPUs */
    struct op_host host;
    struct op_gpu gpu;
    double (*flops)(const struct call *c); /* default: 2 per point of the rule (rule_points()) */

    /* Samples that the tests try: "f32{4,6} f32{6,8}", "f32{4,6} axis=0", "i64{5}<7 f32{7,3}" (values below 7),
     * "f32{4}>0.5" (above 0.5), "-" absent, "#2.5" a number. At least two samples, including an unusual one. */
    const char *sample[OP_SAMPLE];
};

/* Returns the epilogue that an element-wise call applies to its first operand, or FOLLOW_NONE. */
static inline enum follow
call_follow(const struct call *c)
{
    return c->op->eltwise.follow ? c->op->eltwise.follow(c) : FOLLOW_NONE;
}

/* Builds nodes of gradients and composites (kernels/op/lib/build.h has a helper per operator). Belongs to a session and
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

/* Queries on a record (runtime/graph/op.c). */
int op_nattr(const struct op *op);
bool op_is_placed(const struct op *op); /* values may depend on the position of a shard in the global tensor */
int op_noperand(const struct op *op);
int op_attr_find(const struct op *op, const char *name); /* index or -1 */
void op_attr_defaults(const struct op *op, struct attr *attr);
bool op_attr_same(const struct op *op, const struct attr *a, const struct attr *b); /* bitwise */

#endif
