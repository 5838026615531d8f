/* rille_operator.h - an operator in a shared library of your own, which rille.load_operators() and
 * rille_load_operators() load into a running program.
 *
 *     #include <rille_operator.h>
 *
 *     static const struct rille_operator scale_rows = {RILLE_OPERATOR_HEAD, .name = "scale_rows", ...};
 *     RILLE_OPERATORS(&scale_rows)
 *
 * The library needs no other file of Rille and calls no function of Rille. docs/library.md has the rules of the
 * interface's versions; examples/plugin is a complete library. C11; C++20, where designators are in the order of the
 * fields.
 *
 * Owner: the library owns its records and their texts. Records are constant, and valid until the process ends, because
 * Rille never unloads a library. The pointers of a call are valid until the function returns.
 * Threads: Rille calls every function on any of its threads, several calls at once. Functions must not change global
 * variables.
 * Errors: a function that returns int returns 0, or another number after it has written a text to the call's error.
 * Rille puts the operator's name before the text. */
#ifndef RILLE_OPERATOR_H
#define RILLE_OPERATOR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. Rille refuses a library of another version. */
#define RILLE_OPERATOR_ABI 1
/* the first two fields of every record */
#define RILLE_OPERATOR_HEAD .size = sizeof(struct rille_operator), .abi = RILLE_OPERATOR_ABI

enum { RILLE_OPERATOR_DIMS = 8, RILLE_OPERATOR_LIST = 16 };

/* dtypes. An element of bf16 or f16 has 2 bytes; an element of bool has 1 byte, 0 or 1. */
enum rille_operator_dtype {
    RILLE_DTYPE_NONE, /* the operand is absent */
    RILLE_DTYPE_BOOL,
    RILLE_DTYPE_U8,
    RILLE_DTYPE_I32,
    RILLE_DTYPE_I64,
    RILLE_DTYPE_BF16,
    RILLE_DTYPE_F16,
    RILLE_DTYPE_F32,
    RILLE_DTYPE_F64
};

/* ---- arguments of the library's functions ---- */

/* One device's shard of an operand or result. An operand that is a number has ndim 0, and dtype f64 or i64. */
struct rille_operator_tensor {
    void *data; /* first element of the shard; NULL in infer() and operations(), and if the operand is absent */
    uint8_t dtype;
    uint8_t ndim;
    int64_t dim[RILLE_OPERATOR_DIMS];    /* sizes of the shard; may be 0 */
    int64_t stride[RILLE_OPERATOR_DIMS]; /* distance between neighbours in each dimension, in elements; may be 0 */
    int64_t offset[RILLE_OPERATOR_DIMS]; /* index of the first element in the global tensor */
    int64_t global[RILLE_OPERATOR_DIMS]; /* sizes of the global tensor */
};

/* The value of an attribute. */
struct rille_operator_value {
    uint8_t set;                       /* 1: the caller gave the attribute; 0: the value is the default */
    int32_t n;                         /* INTS: number of integers */
    int64_t i;                         /* value of INT and BOOL; WORD: index of the word */
    double f;                          /* value of FLOAT */
    int64_t list[RILLE_OPERATOR_LIST]; /* value of INTS */
};

struct rille_operator_call {
    uint32_t size; /* sizeof(struct rille_operator_call) of the running Rille */
    int32_t nin, nout;
    int32_t threads; /* number of threads that the function may use */
    const struct rille_operator_tensor *in;
    const struct rille_operator_tensor *out; /* results, to be written; NULL in infer() */
    const struct rille_operator_value *attr; /* attributes, in the order of the record */
    char *error;                             /* buffer for the text of an error */
    uint64_t error_size;                     /* size of that buffer, bytes */
    int64_t *letter; /* infer(): receives the sizes of letters that only results have; NULL elsewhere */
};

/* ---- the record of an operator ---- */

enum {
    RILLE_OPERAND_NUMBER = 1,   /* the caller may pass a number for the operand */
    RILLE_OPERAND_OPTIONAL = 2, /* the caller may omit the operand */
    RILLE_OPERAND_INTEGER = 8,  /* the dtype must be u8, i32 or i64 */
    RILLE_OPERAND_FLOAT = 32    /* the dtype must be f64, f32, bf16 or f16 */
};
struct rille_operator_operand {
    const char *name; /* NULL ends the list */
    uint32_t flags;   /* sum of RILLE_OPERAND_ flags */
};

enum rille_operator_kind {
    RILLE_ATTRIBUTE_INT = 1,
    RILLE_ATTRIBUTE_FLOAT,
    RILLE_ATTRIBUTE_BOOL,
    RILLE_ATTRIBUTE_WORD, /* one of `words`; the first is the default */
    RILLE_ATTRIBUTE_INTS  /* a list of integers, by default empty */
};
struct rille_operator_attribute {
    const char *name;  /* NULL ends the list */
    int32_t kind;      /* one of RILLE_ATTRIBUTE_ */
    int64_t i;         /* default of INT and BOOL */
    double f;          /* default of FLOAT */
    const char *words; /* WORD: words, separated by '|' */
    const char *doc;   /* meaning, for the help page */
};

/* How the devices' partial results are combined if a letter of the rule is split, and only operands have the
 * letter. */
enum rille_operator_reduce {
    RILLE_REDUCE_NONE, /* a letter that only operands have is never split */
    RILLE_REDUCE_SUM,
    RILLE_REDUCE_MAX,
    RILLE_REDUCE_MIN
};

enum rille_operator_result {
    RILLE_RESULT_PROMOTED, /* the promoted dtype of all operands */
    RILLE_RESULT_FLOAT,    /* the promoted dtype if it is a float, else f32 */
    RILLE_RESULT_BOOL,
    RILLE_RESULT_I64,
    RILLE_RESULT_FIRST = 5 /* the dtype of operand 0 */
};

/* The gradient of an operand: a call of another operator, with up to RILLE_OPERATOR_OPERANDS operands. */
struct rille_operator_gradient {
    /* operator of this library or of Rille; NULL: no gradient passes to the operand. Attributes with the same name
     * and kind in both operators are passed on. */
    const char *name;
    /* values that the call reads, a character each: '0'..'9' operands, 'a'..'d' results, 'A'..'D' gradients of
     * results; "0A": operand 0, and the gradient of the first result */
    const char *reads;
};

enum { RILLE_OPERATOR_OPERANDS = 10, RILLE_OPERATOR_ATTRIBUTES = 8, RILLE_OPERATOR_SAMPLES = 10 };
enum { RILLE_OPERATOR_HIDDEN = 128 /* users do not see the operator; it computes a gradient */ };

struct rille_operator {
    uint32_t size, abi; /* RILLE_OPERATOR_HEAD */
    const char *name;   /* small letters, digits, '_'; at most 63 characters */
    const char *doc;    /* formula, one line, for the help page */
    struct rille_operator_operand operand[RILLE_OPERATOR_OPERANDS];
    struct rille_operator_attribute attribute[RILLE_OPERATOR_ATTRIBUTES];
    int32_t results; /* number of results, at most 4; 0: one */
    uint32_t flags;  /* 0 or RILLE_OPERATOR_HIDDEN */

    /* The dimension rule: a letter per dimension of operands and results, "ab,bc->ac". Equal letters have equal
     * size. Each letter is a claim: if the operands are split along the letter, each device computes its shard of
     * the result. If no result has the letter, each device computes a part, and `reduce` combines the parts. "[b]"
     * claims nothing of b; "1" is a dimension of size 1; "(ab)" a merged dimension, major letter first; "[n]" only on
     * the right is new, and infer() sets its size. NULL for an element-wise operator, whose operands are broadcast. */
    const char *rule;
    int32_t reduce; /* one of RILLE_REDUCE_ */
    /* Operands in which the operator is linear: if such an operand is a partial sum, so is the result. Text of
     * operand numbers: "0|1": operand 0 alone or operand 1 alone; "01": both together. NULL: none. */
    const char *linear;
    const char *accepts; /* dtypes of all operands: letters F (floats), I (integers), B (bool); NULL: all */
    int32_t result;      /* dtype of the results: RILLE_RESULT_ */
    /* Checks sizes and attributes, and sets letter[0], letter[1], ...: the sizes of letters that only results have, in
     * order of appearance. NULL: there is nothing to check or set. */
    int (*infer)(const struct rille_operator_call *c);

    /* The definition: computes the results. Operands and results are dense; floats have dtype f64, integers and bools
     * i64. An element-wise operator has `element` instead. */
    int (*run)(const struct rille_operator_call *c);
    /* Computes the same results faster than run(), from views with any strides, for tensors whose dtypes are all in
     * fast_dtypes (a sum of 1 << RILLE_DTYPE_). NULL: run() computes all calls. */
    int (*fast)(const struct rille_operator_call *c);
    uint32_t fast_dtypes;
    /* The definition of an element-wise operator: the result for elements x[0], x[1], ... of the operands. */
    double (*element)(const struct rille_operator_value *attr, const double *x);
    /* Computes n elements in f32. x[k]: elements of operand k; y may be the same memory as one x[k]. NULL: element()
     * computes all dtypes. */
    void (*element_f32)(const struct rille_operator_value *attr, int64_t n, const float *const *x, float *y);
    /* Returns the number of operations of a call, for planners; NULL: 2 per point of the rule. */
    double (*operations)(const struct rille_operator_call *c);

    struct rille_operator_gradient gradient[RILLE_OPERATOR_OPERANDS]; /* by operand; all NULL: no gradient */
    /* Calls with which Rille checks the record when it loads it: "f32{4,6} f32{6,8}", "f32{4,6} axis=1",
     * "i64{5}<7 f32{7,3}" (values below 7), "f32{4}>0.5" (above 0.5), "-" (absent), "#2.5" (a number). At least one.
     * NULL ends the list. */
    const char *sample[RILLE_OPERATOR_SAMPLES];
};

/* Returns the library's records; the last entry is NULL. abi: version of the running Rille; NULL: the library has no
 * records of this version. A library defines this function with RILLE_OPERATORS. */
#if defined __GNUC__
__attribute__((visibility("default")))
#endif
const struct rille_operator *const *
rille_operators(uint32_t abi);

#ifdef __cplusplus
#define RILLE_OPERATORS_NULL nullptr
#else
#define RILLE_OPERATORS_NULL ((void *)0)
#endif
/* Defines rille_operators(). The arguments are addresses of records. */
#define RILLE_OPERATORS(...)                                                                                           \
    const struct rille_operator *const *rille_operators(uint32_t abi)                                                  \
    {                                                                                                                  \
        static const struct rille_operator *const list[] = {__VA_ARGS__, RILLE_OPERATORS_NULL};                        \
        (void)abi;                                                                                                     \
        return list;                                                                                                   \
    }

#ifdef __cplusplus
}
#endif
#endif
