/* shell.h - declarations shared by the files of the shell: struct shell (one per Lua state), and the functions of
 * each file.
 *
 * The shell is Lua's side of rille.h. Each function that Lua calls does three things: it checks the arguments,
 * reports the user's line and calls the core, and pushes the result or raises an error. The shell owns no values:
 * a tensor in Lua is a userdata that holds one handle, which __gc releases. The struct shell is stored in the
 * userdata that shell_open() creates first. When the Lua state is closed, Lua frees this userdata last, and the
 * session with it. All functions run on the one thread that owns the Lua state. In the comments, i and other indices
 * are indices of Lua's stack, and "the top" is the top of Lua's stack. */
#ifndef RILLE_SHELL_SHELL_H
#define RILLE_SHELL_SHELL_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "rille.h"

#include <limits.h>
#include <sys/types.h>

/* Warning for a device kind that was renamed; the old name works until the next release. */
#define RENAMED_KIND "the device kind \"late\" was renamed to \"async\"; \"late\" will be an error in the next release"

/* The kinds of userdata that the shell makes; each has one metatable. */
enum kind {
    KIND_SHELL,
    KIND_TENSOR,
    KIND_PLACE,
    KIND_LIVE,
    KIND_GRAPH,
    KIND_FILE,
    KIND_TOKENS,
    KIND_TOKENIZER,
    KIND_TRAINER,
    KIND_JSON,
    NKIND
};

struct line { /* a line of the user's program */
    char file[256];
    int number;      /* line number; 0: unknown */
    char inside[64]; /* class whose method made the call, "nn.Linear"; "": none */
    int32_t module;  /* number of the innermost module whose method runs (lua_error.c); 0: none */
};

struct environment {
    struct rille_options options;
    const char *trace;     /* RILLE_TRACE: a file for the trace of each graph, or NULL */
    bool check_trace;      /* true if RILLE_CHECK=trace: compiled steps trace some calls again and compare the traces */
    const char *transport; /* RILLE_TRANSPORT: "tcp" or "mpi", or NULL */
    char cost[PATH_MAX];   /* path of the file of measured transfer costs; "": no folder exists for it */
    char error[PATH_MAX];  /* error message, set if reading the environment fails */
};

/* A hook of a Lua state, as lua_sethook() accepts it. */
struct lua_hook {
    lua_Hook hook;
    int mask, count;
};
struct shell {
    struct rille_session *session;
    struct shell *next; /* the shell of this process that was opened before; NULL: none (shell.c) */
    pid_t process;      /* id of the process that opened the session; it differs in a child made by fork() */
    lua_State *main;    /* main state, not a coroutine */
    /* Lua state that called the core last; the functions of live numbers (rille.live) run on it */
    lua_State *running;
    const void *meta[NKIND]; /* addresses of the metatables of all kinds */
    struct line line;        /* line last passed to rille_at() */
    bool asking;             /* true while the function of a live number (rille.live) is called, before a run */
    const char *trace;       /* RILLE_TRACE, as in struct environment */
    bool check_trace;        /* true if RILLE_CHECK=trace, as in struct environment */
    int ntrace;
    const struct graph *tracing; /* compiled step whose function is being traced (lua_graph.c), or NULL */
    int64_t ninterrupt;          /* number of times that the error "interrupted" was raised */
    void (*closing)(void);       /* called before the session is closed; NULL: none */
    void (*cancelled)(void);     /* called after Ctrl-C has cancelled a run; NULL: none */
    /* called when a coroutine starts to run, and when it stops; NULL: none */
    void (*entered)(lua_State *co), (*left)(void);
    /* State of lua_watch.c, which looks for uses of live numbers (rille.live) that a trace cannot record.
     * watching: a search is in progress. live_used: such a use was found. before: the hook that the search has
     * replaced, to restore at its end. */
    bool watching, live_used;
    struct lua_hook before;
    void (*unhooked)(lua_State *L); /* called when that hook has been restored; NULL: none */
    /* makes the step being traced depend on a field of a tensor: a later call with another value of the field is
     * traced again. Lua stack: 1 the tensor, 2 the name of the field (lua_conditions.c) */
    void (*follow_field)(lua_State *L);
    /* prints the environment for :doctor; set by the program (doctor_print) */
    int (*doctor)(lua_State *L, bool json);
    /* Displays a document of this MIME type, with a plain-text fallback, in a notebook; NULL: no notebook. */
    void (*display)(const char *type, const char *text, const char *plain);
    unsigned made;      /* number of tensors pushed so far; collect_if_due() is called at every 1,024th */
    int64_t collect_at; /* garbage collection threshold: bytes owned by tensor handles */
    bool color;
    struct rille_saving *saving; /* background save in progress; NULL: none */
    char lost[512];              /* core's error message for the last lost worker */
};

/* ---- shell.c: struct shell, kinds of userdata, arguments, memory ---- */

/* Creates struct shell for the Lua state, and opens the session. Returns the core's error code. */
int shell_new(lua_State *L, const struct environment *e);
/* Closes the session; callable from Lua. */
int shell_close(lua_State *L);
/* Returns the shell of the Lua state; coroutines share it. */
struct shell *shell_of(lua_State *L);
/* Returns the session, for calls of core functions that report no error; NULL: the session is closed. Raises in a
 * child made by fork(). */
struct rille_session *shell_session(lua_State *L);
/* Pushes a zeroed userdata of this kind, owned by Lua. */
void *kind_new(lua_State *L, enum kind kind, size_t size);
/* Returns the userdata at index i if it is of this kind, else NULL. Also returns NULL after the session is closed:
 * an object that is created while Lua closes a state is never finalised, so it may refer to a handle that no
 * longer exists. */
void *kind_test(lua_State *L, int i, enum kind kind);
/* Pushes a new metatable for the kind, with the kind's name and methods. */
void kind_make(lua_State *L, enum kind kind, const char *name, const luaL_Reg *methods);
struct rille_tensor *tensor_test(lua_State *L, int i); /* returns NULL if the value is no tensor */
void kind_metatable(lua_State *L, enum kind kind);     /* pushes the kind's metatable */
/* Raises an error with the user's line unless the host can allocate `bytes`; Lua's own out-of-memory error has no
 * line. scratch_new also pushes a userdata of that size. */
void room_check(lua_State *L, const char *who, size_t bytes);
void *scratch_new(lua_State *L, const char *who, size_t bytes);
/* A userdata that owns something allocated by C. If a Lua error skips the code that frees the thing, Lua frees the
 * thing when it collects the userdata. */
struct owner {
    void *thing; /* memory or object to free; NULL: none */
    void (*drop)(void *thing);
};
struct owner *owner_push(lua_State *L, void (*drop)(void *thing));
void owner_drop(struct owner *o); /* frees o->thing at once */
/* Raises unless all keys of the table at i are integers or in the NULL-ended list. who: prefix of the message. */
void check_keys(lua_State *L, int i, const char *who, const char *const *keys);
/* Raises unless the keys of the table at i are 1 to its length. */
void check_list(lua_State *L, int i, const char *who);
/* Collects Lua's garbage when the bytes owned by handles have grown enough. Call only while no core call is in
 * progress. */
void collect_if_due(lua_State *L);

/* ---- environment.c ---- */

/* Reads RILLE_DEVICES, RILLE_SEED and the other variables. Non-zero: e->error names the wrong value. */
int environment_read(struct environment *e);
/* Returns the path of Rille's file `name` in the folder that the environment variable xdg names, else in the
 * folder under_home of the user's home directory; false if neither file exists. */
bool environment_path(const char *xdg, const char *under_home, const char *name, char path[PATH_MAX]);

/* ---- modules.c: the built-in modules written in Lua ---- */

/* Loads rille.NAME ("nn.linear"). Returns LUA_OK and pushes the function, or Lua's error code and pushes a message,
 * or MODULE_NONE and pushes nothing. */
enum { MODULE_NONE = -1 };
int module_load(lua_State *L, const char *name);
bool module_exists(lua_State *L, const char *name);
/* Returns true if `source` (of a lua_Debug) is a built-in module. */
bool module_is_source(const char *source);

/* ---- lua_rille.c: the module ---- */

/* Opens the session, pushes the module, and registers it for require. If the core fails, pushes nothing and returns
 * its error code; rille_error() says why. */
int shell_open(lua_State *L, const struct environment *e);
/* Waits for saves and runs in progress, and raises their errors. Does nothing in a child made by fork(). */
void shell_finish(lua_State *L);

/* ---- lua_error.c: lines and errors ---- */

/* Finds the line of the user's program that is running. level: stack level at which the search begins; 0: the running
 * function. */
void user_line(lua_State *L, int level, struct line *line);
/* Reports the user's line to the core. Call before each core call that adds nodes or may fail. */
void at_line(lua_State *L);
/* Raises the core's error, prefixed by the user's line. Inserts `who` unless the message begins with it; who NULL:
 * nothing is inserted. */
int raise_core(lua_State *L, const char *who);
/* Raises the core's error for a call of operator `op`, which the user called `who`. */
int raise_call(lua_State *L, const char *op, const char *who);
static inline void
check(lua_State *L, int code)
{
    if (code) raise_core(L, NULL);
}
static inline void
check_as(lua_State *L, const char *who, int code)
{
    if (code) raise_core(L, who);
}
/* Raises an error of the shell, prefixed by the user's line. */
int complain(lua_State *L, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void lost_remember(lua_State *L);  /* call after a core failure: remembers the error if it reports a lost worker */
bool lost_is(lua_State *L, int i); /* returns true if the text at i contains the remembered error */
/* stores the error at the top, and pops it; call in a function that the core has called */
void live_fail(lua_State *L);
void live_raise(lua_State *L); /* call after a failure: raises the error of a live number's function, if any */
/* Returns the string at i for the core, whose strings end at a zero byte. Raises if the value is no string or
 * contains a zero byte. */
const char *text_at(lua_State *L, int i, const char *who);
/* whole_at reads the integer at index i, real_at any number. Both return false for other values, also for numeric
 * strings, which Lua itself would convert. */
bool whole_at(lua_State *L, int i, int64_t *out);
bool real_at(lua_State *L, int i, double *out);
/* Returns the number at i as text: "2.5"; "nan" for NaN of either sign. May push a new value for the text. */
const char *number_text(lua_State *L, int i);
/* Describes an argument for messages: "a tensor", "the number 2.5". May push a new value for the text. */
const char *what_is(lua_State *L, int i);

/* ---- lua_workers.c: worker processes ---- */

void workers_open(lua_State *L); /* adds functions to the module table at the top */

/* ---- lua_stopping.c: signals that ask the process to stop ---- */

void stopping_open(lua_State *L); /* adds functions to the module table at the top */
/* A signal handler: records the first signal. Calls stopping_now() at a second signal, more than a second later. */
void stopping_note(int number);
const char *stopping_name(int number); /* returns "TERM" for SIGTERM; "?" for a signal that is not handled here */
int stopping_noted(void);              /* returns the signal that stopping_note() recorded; 0: none */
void stopping_tell(int number);        /* prints which signal ends the process; safe in a signal handler */
void stopping_now(int number); /* like stopping_tell(), then ends the process at once; safe in a signal handler */
/* Sets the handler of SIGTERM, SIGUSR1, SIGUSR2 and SIGHUP, except where the parent process ignores the signal. Without
 * a handler, process 1 of a container never receives these signals. */
void stopping_catch(void (*handler)(int number), int flags);
/* Makes rille.stopping() change no handler from now on, because at a prompt these signals end the program. */
void stopping_decline(void);

/* ---- field.c: each function sets a field of the table at the top ---- */

void field_text(lua_State *L, const char *key, const char *value); /* value NULL: nil */
void field_number(lua_State *L, const char *key, double value);
void field_integer(lua_State *L, const char *key, int64_t value);
void field_flag(lua_State *L, const char *key, bool value);
void field_function(lua_State *L, const char *key, lua_CFunction value);

/* ---- misuse.c: operators that Rille's objects do not support ---- */

/* Adds the metamethods to the metatables of all object kinds; call it after these kinds are registered. Adds
 * functions to the module table at the top. */
void misuse_open(lua_State *L);
void misuse_shape(lua_State *L); /* completes the metatable of shapes, at the top */
/* Pushes and returns the name of an object's class with its article, such as "an nn.Linear"; pushes nothing and returns
 * NULL if the value has no class. */
const char *class_text(lua_State *L, int i);
/* Raises the error of a function whose argument i is not of the kind. If the user wrote x.name() for x:name(), the
 * message says so. */
int refuse_self(lua_State *L, int i, enum kind kind, const char *name, const char *expected);
bool is_callable(lua_State *L, int i); /* returns true for functions and for objects that a user may call */

/* ---- names.c: misspelt names ---- */

struct nearest { /* a similar name, and the number of letters that differ; name NULL: no name is similar */
    const char *name;
    int changes;
};
void names_open(lua_State *L); /* adds functions to the module table at the top */
/* Sets *best to `key` if `key` is similar to a misspelt name, and closer than *best. */
void nearest_add(struct nearest *best, const char *name, const char *key);
/* Sets *best to the table key closest to a misspelt name, if closer than *best. The table owns the key. */
void name_nearest(lua_State *L, int table, const char *name, struct nearest *best);
/* Returns Rille's name for what other libraries call `name`. scope: "" (a global), "tensor" or "rille". NULL:
 * unknown. */
const char *name_elsewhere(const char *scope, const char *name);
/* Returns "; the nearest name is 'x'", or "", for the end of a message. May push a new value for the text. */
const char *name_hint(lua_State *L, const struct nearest *best);
/* Returns the end of the message for an unknown option. keys: the valid options; NULL ends the list. For an
 * option of another library, the text names Rille's option: ": write axis" for PyTorch's dim. For other names,
 * the text is that of name_hint(). */
const char *option_hint(lua_State *L, const char *name, const char *const *keys);

/* ---- lua_place.c: placements and layouts ---- */

void place_open(lua_State *L); /* adds functions to the module table at the top */
void place_push(lua_State *L, const struct rille_place *p);
const struct rille_place *place_check(lua_State *L, int i); /* raises if the value is no placement */
/* Returns the layout that is broadcast (B) on every mesh axis. */
const struct rille_layout *broadcast_layout(lua_State *L, const struct rille_place *p);
/* Returns the layout given by the fields placement and sbp of the table at i, or NULL if both are absent. If only one
 * field is absent, its value is that of `like` (like NULL: device 0 of the default kind, layout B). who: prefix of
 * messages. */
const struct rille_layout *layout_read(lua_State *L, int i, const char *who, int ndim, const struct rille_layout *like);
/* Returns true if sbp of the options at i is "auto". Then layout_read() returns B, and the caller marks the tensor
 * with rille_tensor_auto(). */
bool layout_auto(lua_State *L, int i);

/* ---- lua_tensor.c, lua_index.c: tensors ---- */

void tensor_open(lua_State *L);
/* Pushes a tensor userdata without a handle, and returns the address at which the handle is stored. The caller
 * must store a handle at once. */
struct rille_tensor **tensor_slot(lua_State *L);
struct rille_tensor *tensor_check(lua_State *L, int i, const char *who); /* raises if the value is no tensor */
void tensor_list(lua_State *L, int i, const char *who, int max, struct rille_tensor **out, int *n);
void push_shape(lua_State *L, int n, const int64_t *shape);
void leaves_open(lua_State *L); /* lua_leaves.c: adds functions that change several variables at once */
int index_get(lua_State *L);    /* implement x[key] and x[key] = v for keys that are no names */
int index_set(lua_State *L);
int index_pairs(lua_State *L);
void index_open(lua_State *L); /* adds split and chunk to the methods */

/* ---- lua_gradient.c: gradient functions and hooks ---- */

void gradient_open(lua_State *L); /* adds functions to the module table at the top */
int tensor_retain_grad(lua_State *L);

/* ---- lua_scan.c ---- */

void scan_open(lua_State *L); /* adds a function to the module table at the top */

/* ---- lua_op.c: operators ---- */

void op_open(lua_State *L);
/* Adds load_operators, and the operators that are loaded already, to the module at the top. Call when the module is
 * complete, because an operator must not replace a function. */
void op_open_loaded(lua_State *L);
/* Calls an operator as a step of another operation. Pushes and returns the operator's first result. */
struct rille_tensor *op_apply(lua_State *L, const char *name, int nargs, const struct rille_arg *args, int nattrs,
                              const struct rille_attr *attrs);
/* Sets the strategy of the next call from the table at index i: for each operand, the list of the numbers of
 * shards per axis, as in {{2, 1}, {1, 4}}. Returns NULL, or an error message that stays on the stack. */
const char *op_strategy(lua_State *L, int i);
/* Push the function of an operator, or nil if the operator does not exist. op_push_unary pushes a unary
 * metamethod, to which Lua passes the operand twice. */
void op_push(lua_State *L, const char *name);
/* like op_push(); messages use `name` for the operator */
void op_push_as(lua_State *L, const char *op, const char *name);
void op_push_unary(lua_State *L, const char *name);
/* Appends "x is f32{4, 5} S(0) on cpu[0, 1]". */
void tensor_describe(lua_State *L, luaL_Buffer *b, const char *name, struct rille_tensor *t);

/* ---- lua_create.c: new tensors ---- */

struct options {       /* options of a function that creates a tensor */
    const char *dtype; /* NULL: not given */
    const struct rille_layout *layout;
    bool requires_grad;
    bool planned; /* sbp = "auto": the planner chooses the layout */
    const char *name;
};
void create_open(lua_State *L);
/* reads the options at i, which may be nil */
void options_read(lua_State *L, int i, const char *who, int ndim, struct options *o);
void options_apply(lua_State *L, const char *who, const struct options *o, struct rille_tensor *t);
/* reads a shape: a table at *i, or integers from *i on; advances *i past them */
int shape_read(lua_State *L, int *i, const char *who, int64_t *shape);

/* ---- arity.c ---- */

/* Replaces the function at the top by a function that raises an error for more than `most` arguments. self: number
 * of leading arguments that are the object of a method. */
void arity_limit(lua_State *L, const char *name, int most, int self);
/* limits the number of arguments of the functions of the module at the top, and of methods */
void arity_open(lua_State *L);

/* ---- lua_conditions.c: the values that a trace depends on. The compiled step is at stack index 1 ---- */

/* index of the compiled step's user value (lua_setiuservalue) that holds the last trace's conditions */
enum { GRAPH_CONDITIONS = 3 };
/* Warns, before a trace, if an argument whose sizes change has often caused new traces. The arguments are at
 * indices 2 to last. */
void conditions_sizes(lua_State *L, int last);
void push_hook(lua_State *L, const char *name); /* pushes the function `name` of lua/step/trace.lua */
/* Begins a list of the conditions of a trace: the values that the traced function reads. pattern: stack index of
 * the table of the call's arguments, with a marker in place of each tensor. */
void conditions_begin(lua_State *L, int pattern);
/* Like conditions_begin(), for a trace that replaces a former trace after numbers have changed. The conditions of
 * the former trace are at the top of the Lua stack, and are popped. Each changed number becomes a live number: an
 * input that is read again before each run. Returns false if anything else has changed, or if a number cannot be
 * live. */
bool conditions_begin_live(lua_State *L, int pattern);
void conditions_none(lua_State *L); /* declares that the next trace depends on no values that may change */
/* Begin and end the recording of a trace's conditions: call conditions_enter before the traced function runs, and
 * conditions_end after. failed: the function raised an error. Non-zero: an error is at the top. */
int conditions_enter(lua_State *L);
int conditions_end(lua_State *L, int failed);
/* Sets the numbers that became live, where the traced function reads them: to the values of the former trace if
 * `former`, else to the present values. */
void conditions_numbers(lua_State *L, bool former);
/* Ends the attempt that conditions_begin_live() began. good: the new trace computes the same as the former trace.
 * Returns false if the numbers cannot be live. */
bool conditions_end_live(lua_State *L, bool good);
void conditions_give(lua_State *L); /* stores the conditions in the trace at the top */
/* Returns true if a step computes the same with either of the two values at the top: 2 and 2.0 differ, as do 0.0 and
 * -0.0. */
bool conditions_same(lua_State *L);
bool conditions_hold(lua_State *L); /* returns true if no value that the trace at the top read has changed */
/* adds rille._conditions and related functions to the module table at the top */
void conditions_open(lua_State *L);
/* lua_watch.c: adds rille._watch and rille._watched to the module table at the top */
void watch_open(lua_State *L);

/* ---- lua_graph.c, lua_live.c, lua_explain.c: compiled steps, live numbers, records of plans ---- */

void graph_open(lua_State *L);
void live_open(lua_State *L);
/* Adds `more` to an integer field of the table at i, and returns the sum; the key is at i + 1. Runs no Lua code. */
lua_Integer count_field(lua_State *L, int i, int more);
void explain_open(lua_State *L);
void explain_push(lua_State *L, struct rille_explain **e); /* pushes the record as a table; takes ownership of it */
/* pushes a table that prints as this text; takes ownership of the text */
void text_push(lua_State *L, char **text);
bool plan_physical(lua_State *L, int i); /* reads the option `physical` of plan() in the table at i */

/* ---- lua_file.c: files ---- */

void files_open(lua_State *L);
/* Waits for a background save; raises if the save failed. */
void files_finish(lua_State *L);
/* Names and handles of tensors, to pass to the core; in a userdata on the stack. */
struct names {
    int n;
    const char **name;
    struct rille_tensor **tensor;
};
/* Reads the table of tensors, or the single tensor, at i. Pushes a userdata that stores the arrays of names and
 * handles. */
void names_read(lua_State *L, int i, const char *who, struct names *out);

/* ---- lua_tokens.c: token ids to train on ---- */

void tokens_open(lua_State *L);
void tokens_close(lua_State *L); /* closes all readers of token files */

/* ---- lua_tokenizer.c: text to token ids ---- */

void tokenizers_open(lua_State *L);

/* ---- lua_json.c: JSON as Lua values ---- */

void json_open(lua_State *L);

/* ---- lua_show.c: pictures ---- */

/* Pushes a method that is implemented by function `name` of the Lua module `module`; the module is loaded at the
 * first call. */
void look_push(lua_State *L, const char *module, const char *name);
void show_open(lua_State *L);  /* adds x:show() to the table of methods at the top */
int boxing_show(lua_State *L); /* show() of a record of rille.boxing */
int show_drawn(lua_State *L);  /* the Lua function rille._show */
/* Draws a picture in Lua: calls the function that lua/show/NAME.lua returns, with all values on the stack as
 * arguments. */
int picture_call(lua_State *L, const char *name);
/* Sets the metatable that makes the table at the top print as text. kind: name of a field of rille.show.records. */
void print_as(lua_State *L, const char *kind);

/* ---- lua_actors.c ---- */

/* pushes the actors of a step; NULL: of the plan that ran last */
void actors_push(lua_State *L, struct rille_graph *g);

/* ---- lua_chart.c: the schedule of a step ---- */

/* Reads the costs for the chart from the value at i, which is {forward =, ...} or a chart. Returns false for nil
 * or none. who: prefix of errors. */
bool chart_costs(lua_State *L, int i, const char *who, struct rille_chart_costs *out);
void renamed_fields(lua_State *L); /* makes the table at the top accept old field names, with a warning */
/* pushes the chart; costs: stack index of a table of costs, or of nil */
void chart_push(lua_State *L, struct rille_graph *g, int costs);

/* ---- value.c: dtypes as Lua values ---- */

struct value_kind {
    const char *name;
    int bytes;
    /* stores a number at `at`; returns 0, or -1 if the number does not fit */
    int (*store)(void *at, bool is_int, int64_t i, double f);
    double (*real)(const void *at);     /* reads an element; NULL unless the dtype is a float */
    int64_t (*integer)(const void *at); /* reads an element; NULL if the dtype is a float */
    int64_t low, high;                  /* range in which the dtype represents every integer */
};
const struct value_kind *value_kind(const char *dtype); /* returns NULL for an unknown dtype */
double value_real(double v); /* returns v; clears the sign bit of NaN, so that it prints as "nan" */
void value_push(lua_State *L, const struct value_kind *k, const void *at);

/* ---- print.c ---- */

void print_tensor(lua_State *L, struct rille_tensor *t); /* pushes the tensor as text */
void print_line(lua_State *L, int i); /* pushes one line about the tensor at i, with its values if they are few */

/* ---- fold.c ---- */

int terminal_columns(int fd); /* returns 0 if fd is not a terminal */
int print_columns(void);      /* columns of the terminal; 80 without a terminal */
/* Returns the text wrapped at words to `columns`; the caller frees it. NULL: out of memory. */
char *fold_text(const char *text, int columns);
void fold_push(lua_State *L, const char *text); /* pushes the text wrapped for stdout */
void fold_print(const char *text);              /* prints the text wrapped, and a newline */

/* ---- help.c ---- */

bool help_push(lua_State *L, const char *name); /* pushes the help page of this name; false: there is none */
/* Pushes a list of the help pages that contain the words of the question, best first; returns false if there are
 * none. */
bool help_push_found(lua_State *L, const char *question);
/* Pushes the call syntax of the value at i if the value is a function or class of Rille; else returns false. */
bool help_push_call(lua_State *L, int i);
bool help_push_about(lua_State *L, int i); /* pushes the help page of a value, or of its kind; false: none */
/* Returns the error message for a name that has no page. May push a new value for the text. */
const char *help_missing(lua_State *L, const char *name);
void help_open(lua_State *L);

/* ---- text_only.c ---- */

/* makes Lua load only source text; call after Lua's libraries are open, before a package searcher is added */
void text_only_open(lua_State *L);

/* ---- coroutine.c: autocast and recompute regions belong to the coroutine that entered them ---- */

void coroutine_open(lua_State *L);

/* ---- pattern.c: lets Ctrl-C stop long-running functions of Lua's library ---- */

void pattern_open(lua_State *L);
void pattern_stop(void);    /* makes the pattern match in progress raise "interrupted"; safe in a signal handler */
bool pattern_refused(void); /* returns true if Ctrl-C made an allocation fail since the last call */

/* ---- interrupt.c: Ctrl-C ---- */

void interrupt_open(lua_State *L);
void interrupt_start(lua_State *L); /* from now on Ctrl-C stops running code */
void interrupt_stop(void);          /* restores the Ctrl-C handler that was set before interrupt_start() */
int interrupt_count(void);          /* returns how often Ctrl-C was pressed since interrupt_start() */
/* returns true, at a prompt, if the running code has not yet received the last Ctrl-C or request to end */
bool interrupt_untold(void);
void interrupt_interactive(void); /* from now on Ctrl-C returns to the prompt, and never ends the program */
void interrupt_catch(void);       /* from now on SIGTERM and similar signals end the program in good order */
int interrupt_quit(void);         /* returns the signal that asked the program to end; 0: none */
/* Sets the function that serves visitors (attached prompts, attached.c). The function is called soon after
 * interrupt_knock(), between two Lua instructions and outside core calls. It may call run_quiet() on another Lua
 * state, and interrupt_visit() stops the code that runs there. interrupt_knock() and interrupt_visit() are safe
 * in a signal handler. */
void interrupt_visitor(void (*come)(lua_State *L));
void interrupt_knock(void);
void interrupt_visit(void);

/* ---- run.c ---- */

/* Prints an error to stderr. Control characters, which occur in names and files, are escaped as in Lua: \27. */
void tell_error(const char *text);
void tell_line(const char *text); /* prints an error as a line that begins with "rille: " */
/* Calls lua_pcall with Ctrl-C enabled; an error leaves its text and a traceback on the stack. Returns LUA_OK or
 * Lua's error code. */
int run_quiet(lua_State *L, int nargs, int nresults);

void make_folders(const char *path); /* creates the parent folders of a file */

/* ---- repl.c, command.c, complete.c ---- */

int repl_run(lua_State *L); /* runs until :quit or the end of input; returns the exit code */

#endif
