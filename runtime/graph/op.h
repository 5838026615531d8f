/* op.h - the operator record: everything that defines an operator, in one const struct.
 *
 * kernels/op/NAME.c defines a record (op_NAME), and kernels/op/base/ops.def lists it. Other code never tests which
 * operator a node has; it reads the record's fields.
 *
 * The central field is the dimension rule, an einsum-like string (sbp/rule.h):
 *
 *   "mk,kn->mn"   a letter is a factor; equal letters have equal size
 *   "a[b]c->a[b]c" [x] must stay unsplit
 *   "ab,1b->ab"   1 is a size-one dimension
 *   "ab->a"       a letter only on the left is reduced (it may be split only if .reduce says how)
 *   "(ab)c->abc"  a merged dimension, major factor first
 *   "a->a[n]"     a letter only on the right is new, and unsplit; infer() sets its size
 *   "a->an+"      new, but may be split: ref finds the range of a rank's shard in the offset of its view
 *   "ab,=->ab"    "=": an operand that is absent or a number, and is ignored by the rule
 *
 * A primitive has a rule, ref and (usually) a grad. A composite has only build(), which expresses it by other
 * operators: signatures, kernels and gradient follow from the other operators. A record is constant; any thread
 * may read it. */
#ifndef RILLE_RUNTIME_OP_H
#define RILLE_RUNTIME_OP_H

#include "runtime/tensor/layout.h"
#include "runtime/tensor/view.h"

enum { OP_OPERAND = 12, OP_ATTR = 8, OP_SAMPLE = 10, OP_OUT = 16, ATTR_LIST = 16 };

/* ---- declaring an operator's operands ---- */

enum {
    IN_NUMBER = 1,   /* the operand may be a Lua number, which has a weak type and is bound at run time */
    IN_OPTIONAL = 2, /* the operand may be absent (nil) */
    IN_LIST = 4,     /* a list of one or more tensors; only the last operand may be a list */
    IN_INDEX = 8,    /* must have an integer dtype (positions, labels) */
    IN_HIDDEN = 16,  /* set by the session (seed and ordinal of a random operator), never passed by the user */
    IN_FLOAT = 32,   /* the operand must have a float dtype */
};
struct operand {
    const char *name;
    unsigned flags;
};

/* ---- declaring an operator's attributes ---- */

enum attr_kind {
    ATTR_NONE,
    ATTR_INT,
    ATTR_FLOAT,
    ATTR_BOOL,
    ATTR_TEXT,  /* a word out of def.text, where words are separated by '|'; the first is the default */
    ATTR_INTS,  /* a list of integers; a single integer counts as a list of one */
    ATTR_DTYPE, /* a dtype; its number is stored in field i */
    ATTR_BODY,  /* a body (kernels/op/base/body.h), never given by a user; its number is stored in field i */
};
enum {
    ATTR_REQUIRED = 1,
    /* The value of an ATTR_INT or ATTR_INTS attribute is an axis or a list of axes: of operand 0 (ATTR_AXIS), or
     * of a tensor with one more dimension than operand 0 (ATTR_AXIS_NEW). The session converts negative axes, and
     * rejects invalid axes, before other code sees them. */
    ATTR_AXIS = 2,
    ATTR_AXIS_NEW = 4,
    /* the operator gives a meaning to the unset attribute, described in doc; help pages show no default */
    ATTR_ABSENT = 8,
    /* help pages do not show the attribute; only other operators, or modes of the operator, set it */
    ATTR_HIDDEN = 16,
};
struct attr {
    bool set;  /* true: the user passed the attribute; false: it has its default */
    int32_t n; /* ATTR_INTS: number of integers in the list */
    int64_t i; /* value of ATTR_INT, ATTR_BOOL and ATTR_DTYPE; ATTR_TEXT: index of the word */
    double f;
    int64_t list[ATTR_LIST];
};
struct attr_def {
    const char *name;
    enum attr_kind kind;
    unsigned flags;
    int64_t i; /* default value; ATTR_INTS: unset (n = 0) */
    double f;
    const char *text; /* ATTR_TEXT: the words, separated by '|'; ATTR_INTS: default that help pages show; NULL: none */
    const char *doc;
};

/* ---- a call: an operator and the types of its operands in the global tensors, for every callback ---- */

struct call {
    const struct op *op;
    int nin, nout;
    const struct type *in; /* types of operands; dtype DT_NONE: absent; weak: a number */
    struct type *out;      /* types of results: dtype and, after shape inference, shape */
    const struct attr *attr;
    /* by operand: the operand's layout; an entry is NULL if the operand is a number or absent. layout NULL:
     * layouts are unknown */
    const struct layout *const *layout;
    /* by operand i: the first operand (<= i) with the same value as operand i, so that each value is moved once;
     * NULL: all values differ */
    const uint8_t *same;
};

/* Rules by which the dtype of the results follows from the operands, unless infer() sets the dtype. */
enum out_dtype {
    OUT_PROMOTE, /* promotion of all operands' dtypes */
    OUT_FLOAT,   /* like OUT_PROMOTE, but f32 if all operands are integers or bools */
    OUT_BOOL,
    OUT_I64,
    /* value of the attribute "dtype"; if it is not set: i64 for integers and bools, the operand's dtype for floats */
    OUT_SUM,
    OUT_IN0,  /* dtype of operand 0 */
    OUT_IN1,  /* dtype of operand 1 */
    OUT_ATTR, /* value of the attribute named "dtype" */
};

/* ---- computing a rank's part of a call ---- */

/* How a batch is divided into n micro-batches. The batch's rows (dimension 0) are cut into `cut` equal segments,
 * and each segment into n equal parts. Micro-batch k has part k of each segment. */
struct pieces {
    int32_t n, cut;
    uint32_t of; /* bit i: operand i holds one micro-batch; bit not set: the whole batch */
};

/* The first invalid element that a kernel found in its data. The struct is in memory that device and host share. */
struct finding {
    int64_t at;       /* 1 + row-major index in the shard; 0: no invalid element */
    int64_t value[2]; /* the invalid value, and the least allowed value */
};

/* The allowed values of an operand: `count` consecutive integers from lo on, which wrap around from the largest to
 * the smallest integer, and one additional value. */
struct allowed {
    int operand;
    /* 1 + index of a number operand: allowed values are greater than this number; 0: allowed values begin at lo */
    int after;
    int64_t lo;
    uint64_t count;
    const int64_t *also; /* one further allowed value; NULL: none */
};

/* One rank's work for a call: the global call, and views of this rank's shards of operands and results.
 * in[i].dtype DT_NONE: operand i is absent. A number is a view without dimensions, whose data is a double (F64) or
 * an int64_t (I64). */
struct kcall {
    const struct call *call;
    const struct view *in;
    const struct view *out;
    void *scratch;        /* scratch memory of scratch_bytes bytes, aligned to 64 */
    uint64_t piece;       /* number of the micro-batch, on which random operators depend */
    struct pieces pieces; /* division of the batch, for error texts with positions in the user's tensors */
    int threads;          /* maximum number of threads that the kernel may use (oneDNN) */
    /* true: result 0 is a sum over micro-batches, in f32, to which later micro-batches add */
    bool adds;
    /* true: search the results for NaN, and for infinities if no operand has an infinity */
    bool find_nan;
    /* true: no task of the run reads the results, so they need not stay in cache */
    bool unread;
    /* receives the first invalid element, for operators with say(); NULL: the kernel does not check data */
    struct finding *find;
};

/* A fast implementation of an operator. exec.c uses the first variant whose accepts() returns true. Variants get
 * strided views. A variant that needs dense memory rejects strided views, or sets dense_in to have operands copied. */
struct kernel_variant {
    const char *name; /* name for explain and benchmarks: "dnnl", "avx512" */
    int device;       /* kind of device: DEV_CPU, ... */
    bool dense_in;    /* true: exec.c copies strided operands to dense memory before run() */
    /* returns true if run() accepts operand i with strides, although dense_in is true; NULL: accepts no strided
     * operand */
    bool (*takes)(const struct kcall *k, int i);
    bool (*accepts)(const struct kcall *k);
    /* Creates what run() needs for these shapes and strides (oneDNN primitives). Called by the session's thread when
     * a plan is compiled; drop() frees *state. *scratch_bytes is 0 initially. NULL: nothing to create. */
    int (*prepare)(const struct kcall *k, void **state, size_t *scratch_bytes);
    /* runs the call, on the thread of the device; E_KERNEL after fail() */
    int (*run)(const struct kcall *k, const void *state);
    /* Returns true if some values that run() has computed may differ from those of ref; for example, ref does not
     * multiply zeros by infinities. exec.c then computes the call with ref. NULL: the values never differ. */
    bool (*doubts)(const struct kcall *k);
    void (*drop)(void *state);
};

/* Epilogues of a matrix product that libraries support. v is the product and x a further operand: v + x; v * x;
 * gelu(v), computed with tanh; v * gelu'(x). */
enum follow { FOLLOW_NONE, FOLLOW_ADD, FOLLOW_MUL, FOLLOW_GELU, FOLLOW_GELU_SLOPE, FOLLOW_CAST };

/* Definition of an element-wise operator, y = f(x0, x1, x2). kernels/cpu/eltwise/eltwise.c computes element-wise
 * operators block by block and fuses chains of them. The compute type of a call is f64, f32 (also for bf16, f16), or
 * i64 (integers and bool), by promotion of its operands. f defines the operator for floats, i for integers (NULL: f
 * serves integers, too). c: the call, for its attributes. The texts are the source of f and i, for the compilers of
 * other devices (kernels/op/lib/eltwise.h). */
struct eltwise {
    double (*f)(const struct call *c, const double *x);
    int64_t (*i)(const struct call *c, const int64_t *x);
    const char *f_text, *i_text;
    /* Optional fast code. tile: a tile_op of plain arithmetic (kernels/cpu/eltwise/tile.h). f32, f64: functions on
     * blocks of n contiguous elements. x[k]: elements of operand k; y: result, which may be the same memory as one
     * x[k]. */
    int tile;
    void (*block_f32)(const struct call *c, int64_t n, const float *const *x, float *y);
    void (*block_f64)(const struct call *c, int64_t n, const double *const *x, double *y);
    /* beside: another operator with the same single operand and the same attributes, such as the derivative.
     * Computing both together costs little more than computing one, so f32_beside computes both. y: this
     * operator's result, which may be the same memory as x. beside NULL: none. */
    const struct op *beside;
    void (*f32_beside)(const struct call *c, int64_t n, const float *x, float *y, float *beside);
    /* returns the epilogue (enum follow) that computes the same as the call; FOLLOW_NONE: no library supports it.
     * follow NULL: the operator is never an epilogue */
    enum follow (*follow)(const struct call *c);
};

/* A pass over all lines of a tensor, for devices that compile kernels from source texts. of: 0: lines of operand
 * 0; k > 0: lines of result k - 1. dims: sets the dimensions along which a line runs; NULL: those of line_dims or,
 * for a result, the last dimension. keeps: number of values per line that the next pass reads. parted: a line may
 * be divided into parts, whose values the next pass combines. lanes: the body can process several adjacent lines
 * at once. copies: the pass copies operand 0 to result 0, and is omitted if both share memory. A list of passes
 * ends with body NULL. */
struct line_pass {
    const char *body;
    int of;
    void (*dims)(const struct call *c, bool *gone);
    uint32_t writes; /* results that the pass writes, as bits */
    int keeps;
    bool parted, lanes, copies;
};

/* ---- the record of an operator ---- */

struct node;
struct val;
struct build;
struct line_call;

enum {
    OP_ELTWISE = 1,  /* the field eltwise is set, and defines ref */
    OP_VIEW = 2,     /* out[0] is a strided view of in[0], which .view computes, so the call needs no task */
    OP_RANDOM = 4,   /* the last two operands are hidden: seed and ordinal */
    OP_SOURCE = 8,   /* no tensor operands: the caller passes placement and sbp */
    OP_LIBRARY = 16, /* loaded from a shared library, whose path is `source` */
    OP_INPLACE = 32, /* results may overwrite operands element by element: out[k] overwrites in[k], for k < ninplace
                        (adamw, sgd) */
    OP_MOVE = 64,    /* to_global: the caller passes the layout of the result; the operator computes nothing */
    OP_HIDDEN = 128, /* hidden from users (gradient helpers) */
    OP_UPDATE = 256, /* runs once per batch on values summed over the batch (optimisers) */
    /* the operator is defined only on a part of the numbers (log, sqrt). The identity of a max or min may be
     * outside this part, so P(max) and P(min) do not pass through */
    OP_BOUNDED_DOMAIN = 512,
    OP_NARROW = 1024, /* autocast casts float operands to 16 bits (products) */
    OP_WIDE = 2048,   /* autocast casts 16-bit operands to f32 (sums and powers) */
    /* values do not depend on the position of a shard in the tensor, so ranks may share a kernel */
    OP_UNPLACED = 4096,
    OP_NONZERO = 8192, /* no element of the result is 0, so the result is safe as an integer divisor */
    /* element-wise operators that read the first result may be fused with this operator. The operator is a product
     * and does not check data. On devices that compile kernels, it may also be an operator along lines; the first
     * result then has operand 0's shape, and the kernel writes this result by each_of() */
    OP_LEADS = 16384,
    /* the operator can be fused as a product's epilogue: it has one result, which may overwrite operand 0, the
     * product's result */
    OP_FOLLOWS = 32768,
    /* operands and results may have their dimensions in any memory order at no cost; on devices that compile
     * kernels, the last dimension must stay last */
    OP_ANY_ORDER = 65536,
    /* shift: a view whose operand is read on a placement with the same devices in another order. So a rank's shard of
     * the result is another rank's shard of the operand */
    OP_SHIFT = 131072,
    /* the result is a variable that only gets further entries, such as a cache of keys and values. It is updated in
     * place even if a later operator of the step may fail: nobody reads entries that a failed step wrote */
    OP_APPENDS = 262144,
};

/* A convolution: the operands that are its image, kernel and result (-1: the result of this call), and the stride,
 * padding and dilation by height and width. */
struct convolution {
    int image, kernel, result;
    int64_t stride[2], padding[2], dilation[2];
};

/* Rules by which the dimensions, sizes and dtypes of the results follow from the operands. */
struct op_shape {
    const char *rule; /* the dimension rule as text; NULL: make_rule() writes it */
    int (*make_rule)(const struct call *c, struct str *rule);
    /* Checks attributes against operands (E_ATTR, E_SHAPE), and sets what the rule cannot express: the dtypes of
     * results, and in *size the sizes of letters that only results have, in order of occurrence. */
    int (*infer)(const struct call *c, int64_t *size);
    enum out_dtype dtype;
    /* Allowed dtypes of each operand, as class letters and names: "F", "FI", "FIB". NULL: all. */
    const char *accepts;
};

/* Rules by which partial values pass through the operator, as lists of operands that may be partial. An operand is a
 * hexadecimal digit; '|' separates alternatives. "0|1": operand 0 alone or operand 1 alone; "01": both together;
 * "*": all tensors together. linear: P(sum) passes. increasing: P(max) and P(min) pass; if the operator reduces a
 * factor, only the kind of that reduction passes. decreasing: P(max) becomes P(min), and P(min) becomes P(max). */
struct op_partial {
    const char *linear, *increasing, *decreasing;
    /* returns the text `linear` of a call, for operators in which the text depends on the call; NULL: the field
     * `linear` holds for all calls */
    const char *(*linear_of)(const struct call *c);
    /* reduction that combines the ranks' parts of a result, if a reduced factor (one that only operands have) is
     * split; RED_NONE: no reduced factor may be split */
    enum reduce reduce;
    enum reduce (*reduce_of)(const struct call *c);
    /* bit k: result k is a sum over the factor that the operator reduces by RED_SUM. The sum is f32 until it is
     * complete. Only for operators with several results */
    uint32_t sums;
};

/* The gradient. build: adds the nodes of the gradient. dout[k]: gradient of result k; NULL: none. din[i]: receives
 * the gradient of operand i; stays NULL if there is none. saves: the operands (as digits) and results (as letters)
 * that the gradient reads; "1a" is operand 1 and result 0, "*" all operands and
 * results. */
struct op_grad {
    void (*build)(struct build *b, const struct node *n, struct val *const *dout, struct val **din);
    const char *saves;
};

/* Functions that replace a call by other calls, which compute the same value with less work. Each may be NULL. */
struct op_rewrite {
    /* Returns the transpose of the result of node n, computed by another call; NULL: impossible. Without this
     * function, the gradient of a transposed weight would be a transposed view, whose readers would all access
     * strided memory. */
    struct val *(*transposed)(struct build *b, const struct node *n);
    /* Returns the result of node n in f32, computed by another call; NULL: impossible. For an n that rounds its
     * sums to 16 bits: weights that products read in 16 bits so get f32 gradients. */
    struct val *(*unrounded)(struct build *b, const struct node *n);
    /* Returns an existing value that equals the result of a call on x; NULL: none. Examples: x itself, for a cast
     * to its own dtype; the operand of the call that produced x, for a transpose of a transpose. before: the call
     * that produced x; NULL: unknown. */
    struct val *(*fold)(const struct call *c, struct val *x, const struct node *before);
    /* Fuses the operators that produce operands into this call. An operand that is not computed yet is replaced in
     * `in` by the operands of its operator. `in` has room for all operands of the record. Returns the number of
     * operands. */
    int (*absorb)(struct val **in, int nin);
    /* Returns the sum of n results of this operator, with less work than adding the n results. The results have one
     * shape and layout and are not computed yet. The session uses this function to add gradients. */
    struct val *(*sum)(struct build *b, int n, struct val *const *x);
    /* Returns the sum of value x, from any operator, and the result of node n, with less work than an addition.
     * NULL: impossible. */
    struct val *(*onto)(struct build *b, const struct node *n, struct val *x);
    /* operator that joins the results, if a call on a long list is split into calls on parts of the list; its
     * first attributes are those of this operator. NULL: a list may not be longer than one call accepts */
    const struct op *joins_with;
};

/* Functions by which the host computes a call. */
struct op_host {
    /* definition: a simple loop over dense views; floats are computed as f64, integers and bools as i64 */
    int (*ref)(const struct kcall *k);
    enum reduce
        /* kind of reduction of an operator that reduces over the dimensions in its attribute "axis"
         * (kernels/cpu/rows/reduce.h); RED_NONE: the operator does not reduce in this way */
        folds;
    bool sums_leading; /* true: a product that sums over all leading dimensions of both operands (contract) */
    const struct kernel_variant *kernel; /* variants; the last one has name NULL; NULL: no variants */
    /* For variant "lines" (kernels/cpu/rows/lines.h): describes the work on each line of a call. Returns false if
     * the lines are not contiguous. */
    bool (*lines)(const struct kcall *k, struct line_call *c);
    /* OP_VIEW: sets out[0]'s strides, and *skip (elements from the start of in[0]), for local shards. E_STATE:
     * strides cannot express the view (a reshape of a transpose). The call is then an ordinary task, and exec_new
     * copies. */
    int (*view)(const struct call *c, const struct view *in, struct view *out, int64_t *skip);
    /* For operators whose result is the concatenation of their operands: returns the part of out[0] that operand i
     * fills, and its first element in *skip. */
    void (*window)(const struct kcall *k, int i, struct view *window, int64_t *skip);
    /* For operators that check data: ref and run() record the first invalid element in k->find, and continue with
     * harmless results. Later the host calls say() to turn the record into E_VALUE; k's views then have no data.
     * Updates of variables wait for the check. */
    int (*say)(const struct kcall *k, const struct finding *f);
    /* sets *a to the allowed values of an operand; k's views need no data */
    void (*allows)(const struct kcall *k, struct allowed *a);
};

/* Code of an operator for devices that compile kernels from source texts (kernels/cuda/source.h). Element-wise
 * operators and reductions need none of it, because their code is derived. The texts are bodies of functions in C++.
 * All NULL: the host computes the call. */
struct op_gpu {
    const char *element;          /* body that computes the value at one position of the result */
    const char *line;             /* body that computes a complete line of operand 0 */
    const struct line_pass *pass; /* bodies that compute lines in several passes */
    void (*line_dims)(const struct call *c,
                      /* sets gone[d] for each dimension d along which a line runs; NULL: the dimension in the
                       * attribute "axis", or the last dimension */
                      bool *gone);
    /* bit i: operand i is not divided into lines; bodies index operand i by position in the tensor */
    uint32_t by_position;
    /* body that defines how a matrix product reads its operands and writes its result */
    const char *product;
    const char *attends[2]; /* for 16-bit floats: the templates of kernels/cuda/attention.cuh, one per pass */
    /* describes a convolution, or a gradient of one; pure */
    void (*convolution)(const struct call *c, struct convolution *w);
    /* bit i: operand i may be passed as 16-bit floats, without a cast to f32. The results are the same, because
     * the operator computes in f32 */
    uint32_t halves;
};

struct op {
    const char *name;
    const char *doc; /* formula of the operator, in one line, for help pages */
    /* shape of the result, for help pages, and its dtype if shape.dtype does not determine it; NULL: the shape
     * follows from the rule */
    const char *result;
    const char *errors; /* further conditions of a call, a line each, for help pages; NULL: none */
    const char *source; /* paper or other source; NULL: none */
    struct operand in[OP_OPERAND];
    int nout;                                /* number of results; 0: one result */
    int (*results)(const struct attr *attr); /* returns the number of results of a call; NULL: nout */
    struct attr_def attr[OP_ATTR];
    unsigned flags;
    int ninplace; /* OP_INPLACE: number of results that may overwrite operands */

    struct op_shape shape;
    struct op_partial partial;
    struct op_grad grad;
    struct op_rewrite rewrite;

    /* Expands a composite into other operators, and writes nout values. If out[0] stays NULL without an error, the
     * call is a primitive, computed by the record's rule and ref. */
    int (*build)(struct build *b, const struct call *c, struct val *const *in, struct val **out);
    /* Expands a call into operators that work on shards, for layouts that split an axis which the rule keeps
     * unsplit. out[0] stays NULL if no such axis is split. The session compares this form with the unsplit call,
     * and uses the one that moves fewer bytes. */
    int (*split_form)(struct build *b, const struct call *c, struct val *const *in, struct val **out);

    struct eltwise eltwise; /* OP_ELTWISE: the definition for host and GPUs */
    struct op_host host;
    struct op_gpu gpu;
    /* returns the number of floating-point operations of a call; NULL: 2 per point of the rule (rule_points()) */
    double (*flops)(const struct call *c);

    /* Sample calls for tests: "f32{4,6} f32{6,8}", "f32{4,6} axis=0", "i64{5}<7 f32{7,3}" (values below 7),
     * "f32{4}>0.5" (above 0.5), "-": absent, "#2.5": a number. At least two samples, including an unusual one. */
    const char *sample[OP_SAMPLE];
};

/* Returns the epilogue that an element-wise call applies to its first operand; FOLLOW_NONE: none. */
static inline enum follow
call_follow(const struct call *c)
{
    return c->op->eltwise.follow ? c->op->eltwise.follow(c) : FOLLOW_NONE;
}

/* Adds nodes of gradients and composites. kernels/op/base/build.h has a helper function per operator. Belongs to a
 * session and its thread. */
struct build {
    /* Adds a node. After an error, returns NULL for this and every later call, so one check at the end suffices.
     * in[i] NULL: absent. Several results: res has room for all results of op. */
    struct val *(*add)(struct build *b, const struct op *op, int nin, struct val *const *in, const struct attr *attr,
                       struct val **res);
    struct val *(*number)(struct build *b, double f);   /* adds a node for a float constant of weak type */
    struct val *(*integer)(struct build *b, int64_t i); /* adds a node for an integer constant of weak type */
    /* Adds the gradient of node n, which runs the body in its first attribute (kernels/op/base/body.h). */
    void (*reverse_body)(struct build *b, const struct node *n, struct val *const *dout, struct val **din);
    bool failed;
};

/* ---- functions on a record (runtime/graph/op.c) ---- */
int op_nattr(const struct op *op);
int op_nresult(const struct op *op, const struct attr *attr); /* returns the number of results of a call */
/* returns true if values may depend on a shard's position in the global tensor */
bool op_is_placed(const struct op *op);
/* returns true if the operator is a view whose first attribute lists the sizes of the result (reshape, expand) */
bool op_lists_sizes(const struct op *op);
int op_noperand(const struct op *op);
int op_attr_find(const struct op *op, const char *name); /* returns the attribute's index; -1: none */
void op_attr_defaults(const struct op *op, struct attr *attr);
/* compares attribute values bit by bit */
bool op_attr_same(const struct op *op, const struct attr *a, const struct attr *b);

#endif
