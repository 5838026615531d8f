/* shell.h - declarations shared by the files of the shell: the struct beside the Lua state, and the functions of
 * each file.
 *
 * The shell is Lua's side of rille.h. Each function that Lua calls does three things: check the arguments, report
 * the user's line and call the core, push the result or raise. The shell owns no values: a tensor in Lua is a
 * userdata that holds one handle, which __gc releases. The struct shell is stored in the userdata that shell_open()
 * creates first, so closing the Lua state frees it, and with it the session, last. All functions run on the one
 * thread that owns the Lua state. */
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
    char inside[64]; /* class of Rille that made the call, "nn.Linear"; "": none */
    int32_t module;  /* number of the innermost module whose method runs (lua_error.c); 0: none */
};

struct environment {
    struct rille_options options;
    const char *trace;     /* RILLE_TRACE: a file for the trace of each graph, or NULL */
    bool check_trace;      /* RILLE_CHECK=trace: traces of steps are checked */
    const char *transport; /* RILLE_TRANSPORT: "tcp" or "mpi", or NULL */
    char cost[PATH_MAX];   /* file of measured transfer costs; "": no folder for it */
    char error[PATH_MAX];  /* message of a failure */
};

struct shell {
    struct rille_session *session;
    pid_t process;           /* process that opened the session; a child made by fork() has another */
    lua_State *main;         /* main state, not a coroutine */
    lua_State *running;      /* state that called the core last; live numbers run on it */
    const void *meta[NKIND]; /* addresses of the metatables of all kinds */
    struct line line;        /* line last passed to rille_at() */
    bool asking;             /* a starting run is calling Lua for a live number */
    const char *trace;       /* RILLE_TRACE: a file for the trace of each graph, or NULL */
    bool check_trace;        /* RILLE_CHECK=trace: traces of steps are checked */
    int ntrace;
    const struct graph *tracing;                   /* graph whose function is being traced (lua_graph.c), or NULL */
    int64_t ninterrupt;                            /* times that "interrupted" was raised */
    void (*closing)(void);                         /* called before the session is closed; NULL: none */
    void (*cancelled)(void);                       /* called after Ctrl-C has cancelled a run; NULL: none */
    void (*entered)(lua_State *co), (*left)(void); /* called when a coroutine runs; stops; NULL: none */
    /* makes the step in progress follow a field of a tensor: argument 1, named by argument 2 (lua_conditions.c) */
    void (*follow_field)(lua_State *L);
    int (*doctor)(lua_State *L, bool json); /* prints the facts of :doctor; set by the program (doctor_print) */
    /* Displays a document of this MIME type, with a plain-text fallback, in a notebook; NULL: no notebook. */
    void (*display)(const char *type, const char *text, const char *plain);
    unsigned made;      /* number of tensors pushed so far */
    int64_t collect_at; /* bytes owned by handles at which to collect garbage */
    bool color;
    struct rille_saving *saving; /* save in progress on another thread; NULL: none */
    char lost[512];              /* core's message for the last lost worker */
};

/* ---- shell.c: the struct, kinds of userdata, arguments, memory ---- */

/* Makes the struct beside the Lua state, and opens the session. Returns the core's error code. */
int shell_new(lua_State *L, const struct environment *e);
/* Closes the session, a function for Lua. */
int shell_close(lua_State *L);
/* Returns the shell of the Lua state; coroutines share it. */
struct shell *shell_of(lua_State *L);
/* Returns the session, for core functions that report no error; raises in a child made by fork(). NULL: closed. */
struct rille_session *shell_session(lua_State *L);
/* Pushes a zeroed userdata of this kind, owned by Lua. */
void *kind_new(lua_State *L, enum kind kind, size_t size);
/* Returns the userdata at index i if it is of this kind, else NULL. Returns NULL also after the session is closed,
 * because objects created while Lua closes a state are never finalised and outlive their handles. */
void *kind_test(lua_State *L, int i, enum kind kind);
/* Pushes a new metatable for the kind, with the kind's name and methods. */
void kind_make(lua_State *L, enum kind kind, const char *name, const luaL_Reg *methods);
struct rille_tensor *tensor_test(lua_State *L, int i); /* returns NULL if the value is no tensor */
void kind_metatable(lua_State *L, enum kind kind);     /* pushes the kind's metatable */
/* Raises unless the host can allocate `bytes`, because Lua's own out-of-memory error has no line. scratch_new pushes
 * a userdata of that size. */
void room_check(lua_State *L, const char *who, size_t bytes);
void *scratch_new(lua_State *L, const char *who, size_t bytes);
/* Owner of something that C allocated, freed with the userdata at the latest, so that Lua errors leak nothing. */
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

/* Reads RILLE_DEVICES, RILLE_SEED and the other variables. Non-zero: e->error says which value is wrong. */
int environment_read(struct environment *e);
/* Returns the path of Rille's file `name` in the folder named by the variable xdg, else in under_home of the user's
 * home directory; false if neither exists. */
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

/* Finds the line of the user's program that is running. */
void user_line(lua_State *L, struct line *line);
/* Reports the user's line to the core. Call before each core call that adds nodes or may fail. */
void at_line(lua_State *L);
/* Raises the core's error, prefixed by the user's line, and by `who` unless the message begins with it (NULL: no
 * prefix). */
int raise_core(lua_State *L, const char *who);
/* Raises the core's error of a call of operator `op` under the name `who` that the user wrote. */
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
void live_fail(lua_State *L);      /* in a function that the core called: stores the error at the top, and pops it */
void live_raise(lua_State *L);     /* call after a failure: raises the error of a live number's function, if any */
/* Returns the string at i for the core, whose strings end at a zero byte. Raises if the value is no string or
 * contains a zero byte. */
const char *text_at(lua_State *L, int i, const char *who);
/* Read the integer, or any number, at i. Return false for other values, also for numeric strings (Lua itself would
 * convert them). */
bool whole_at(lua_State *L, int i, int64_t *out);
bool real_at(lua_State *L, int i, double *out);
/* Returns the number at i as text: "2.5"; "nan" whatever its sign. May push a new value for the text. */
const char *number_text(lua_State *L, int i);
/* Describes an argument for messages: "a tensor", "the number 2.5". May push a new value for the text. */
const char *what_is(lua_State *L, int i);

/* ---- lua_workers.c: worker processes ---- */

void workers_open(lua_State *L); /* adds functions to the module table at the top */

/* ---- lua_stopping.c: signals that ask the process to stop ---- */

void stopping_open(lua_State *L); /* adds functions to the module table at the top */
/* A signal handler: records the first signal. Calls stopping_now() at a second signal, more than a second later. */
void stopping_note(int number);
const char *stopping_name(int number); /* returns "TERM" for SIGTERM; "?": another signal */
int stopping_noted(void);              /* returns the signal that stopping_note() recorded; 0: none */
void stopping_tell(int number);        /* prints by which signal the process ends; safe in a signal handler */
void stopping_now(int number);         /* prints the same line and ends the process at once; safe in a signal handler */
/* Sets the handler of SIGTERM, SIGUSR1, SIGUSR2 and SIGHUP, except where the parent process ignores the signal. Without
 * a handler, process 1 of a container never receives these signals. */
void stopping_catch(void (*handler)(int number), int flags);
/* From now on rille.stopping() changes no handler, because these signals end the prompt. */
void stopping_decline(void);

/* ---- field.c: each function sets a field of the table at the top ---- */

void field_text(lua_State *L, const char *key, const char *value); /* value NULL: nil */
void field_number(lua_State *L, const char *key, double value);
void field_integer(lua_State *L, const char *key, int64_t value);
void field_flag(lua_State *L, const char *key, bool value);
void field_function(lua_State *L, const char *key, lua_CFunction value);

/* ---- misuse.c: operators that Rille's objects do not support ---- */

void misuse_open(lua_State *L);  /* call after all kinds are made; adds functions to the module table at the top */
void misuse_shape(lua_State *L); /* completes the metatable of shapes, at the top */
/* Pushes and returns the name of an object's class with its article, such as "an nn.Linear"; pushes nothing and returns
 * NULL if the value has no class. */
const char *class_text(lua_State *L, int i);
/* Raises the error of a function whose argument i is not of the kind; says if a colon was forgotten. */
int refuse_self(lua_State *L, int i, enum kind kind, const char *name, const char *expected);
bool is_callable(lua_State *L, int i); /* returns true for functions and for objects that a user may call */

/* ---- names.c: misspelt names ---- */

struct nearest { /* a similar name, and how much it differs; name NULL: none is similar */
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
/* Returns the same for an option that is none of the keys (NULL at the end): also ": write axis" for PyTorch's dim. */
const char *option_hint(lua_State *L, const char *name, const char *const *keys);

/* ---- lua_place.c: placements and layouts ---- */

void place_open(lua_State *L); /* adds functions to the module table at the top */
void place_push(lua_State *L, const struct rille_place *p);
const struct rille_place *place_check(lua_State *L, int i); /* raises if the value is no placement */
/* Returns the layout with B on every mesh axis. */
const struct rille_layout *broadcast_layout(lua_State *L, const struct rille_place *p);
/* Returns the layout given by the fields placement and sbp of the table at i, or NULL if both are absent. A single
 * absent field is taken from `like` (NULL: device 0 of the default kind, B). who: prefix of messages. */
const struct rille_layout *layout_read(lua_State *L, int i, const char *who, int ndim, const struct rille_layout *like);
/* Returns true if sbp of the options at i is "auto". Then layout_read() returns B, and the caller marks the tensor
 * with rille_tensor_auto(). */
bool layout_auto(lua_State *L, int i);

/* ---- lua_tensor.c, lua_index.c: tensors ---- */

void tensor_open(lua_State *L);
/* Pushes an empty slot for a tensor handle. Fill the slot at once. */
struct rille_tensor **tensor_slot(lua_State *L);
struct rille_tensor *tensor_check(lua_State *L, int i, const char *who); /* raises if the value is no tensor */
void tensor_list(lua_State *L, int i, const char *who, int max, struct rille_tensor **out, int *n);
void push_shape(lua_State *L, int n, const int64_t *shape);
void leaves_open(lua_State *L); /* lua_leaves.c: adds functions that change several variables together */
int index_get(lua_State *L);    /* x[key], x[key] = v for keys that are no names */
int index_set(lua_State *L);
int index_pairs(lua_State *L);
void index_open(lua_State *L); /* adds split and chunk to the methods */

/* ---- lua_gradient.c: gradient functions and hooks ---- */

void gradient_open(lua_State *L); /* into the module table at the top */
int tensor_retain_grad(lua_State *L);

/* ---- lua_op.c: operators ---- */

void op_open(lua_State *L);
/* Adds load_operators, and the operators that are loaded already, to the module at the top. Call when the module is
 * complete, because an operator must not replace a function. */
void op_open_loaded(lua_State *L);
/* Calls an operator as a step of another operation; pushes its first result and returns it. */
struct rille_tensor *op_apply(lua_State *L, const char *name, int nargs, const struct rille_arg *args, int nattrs,
                              const struct rille_attr *attrs);
/* Sets the strategy of the next call from the table at index i: {{2, 1}, {1, 4}} is the number of shards per axis,
 * for each operand. Returns NULL, or an error message that stays on the stack. */
const char *op_strategy(lua_State *L, int i);
/* Pushes the function of an operator, or nil if it does not exist. unary: for Lua's unary metamethods, which pass
 * their operand twice. */
void op_push(lua_State *L, const char *name);
void op_push_as(lua_State *L, const char *op, const char *name); /* messages call the operator by this name */
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
void options_read(lua_State *L, int i, const char *who, int ndim, struct options *o); /* the value at i may be nil */
void options_apply(lua_State *L, const char *who, const struct options *o, struct rille_tensor *t);
int shape_read(lua_State *L, int *i, const char *who, int64_t *shape); /* a table, or numbers from *i on; advances *i */

/* ---- arity.c ---- */

/* Replaces the function at the top by one that refuses more than `most` arguments, of which the first `self` are its
 * object. */
void arity_limit(lua_State *L, const char *name, int most, int self);
void arity_open(lua_State *L); /* makes functions of the module at the top, and methods, refuse more arguments */

/* ---- lua_conditions.c; the graph is at index 1 ---- */

enum { GRAPH_CONDITIONS = 3 }; /* index of the user value with the last trace's conditions */
/* Called before a trace: warns if the sizes of an argument often cause traces. Arguments are at indices 2 to last. */
void conditions_sizes(lua_State *L, int last);
/* Lists what a trace of this call must follow. pattern: index of the call's pattern. */
void push_hook(lua_State *L, const char *name); /* pushes the function `name` of lua/trace.lua */
void conditions_begin(lua_State *L, int pattern);
/* Like conditions_begin(), but puts live numbers in place of the numbers that changed since the conditions at the top,
 * which are popped. Returns false if something else has changed, or a number cannot be live. */
bool conditions_begin_live(lua_State *L, int pattern);
void conditions_none(lua_State *L); /* the next trace has no conditions */
/* Call before and after the traced function runs; failed: it raised an error. Non-zero: an error is at the top. */
int conditions_enter(lua_State *L);
int conditions_end(lua_State *L, int failed);
/* Writes the former values of numbers that became live into their places, or (former false) the present values back. */
void conditions_numbers(lua_State *L, bool former);
/* Ends the attempt that conditions_begin_live() began. good: the new trace computes what the former one does. Returns
 * false if the numbers cannot be live. */
bool conditions_end_live(lua_State *L, bool good);
void conditions_give(lua_State *L); /* stores the conditions in the trace at the top */
bool conditions_hold(lua_State *L); /* returns true if all conditions of the trace at the top hold */
void conditions_open(lua_State *L); /* adds rille._conditions, ... to the module table at the top */

/* ---- lua_graph.c, lua_live.c, lua_explain.c ---- */

void graph_open(lua_State *L);
void live_open(lua_State *L);
/* Adds `more` to the integer that the table at i has under the key at i + 1, and returns the sum. Runs no Lua code. */
lua_Integer count_field(lua_State *L, int i, int more);
void explain_open(lua_State *L);
void explain_push(lua_State *L, struct rille_explain **e); /* takes ownership */
void text_push(lua_State *L, char **text);                 /* a table that prints as this text; takes ownership */
bool plan_physical(lua_State *L, int i);                   /* reads the option `physical` of plan() in the table at i */

/* ---- lua_file.c: files ---- */

void files_open(lua_State *L);
/* Waits for a background save; raises if the save failed. */
void files_finish(lua_State *L);

/* ---- lua_tokens.c: ids to train on ---- */

void tokens_open(lua_State *L);
void tokens_close(lua_State *L); /* closes all readers of token files */

/* ---- lua_tokenizer.c: text to ids ---- */

void tokenizers_open(lua_State *L);

/* ---- lua_json.c: JSON as Lua values ---- */

void json_open(lua_State *L);

/* ---- lua_show.c: pictures ---- */

/* Pushes a method whose function `name` is in the Lua module `module`; it is loaded at the first call. */
void look_push(lua_State *L, const char *module, const char *name);
void show_open(lua_State *L);  /* adds x:show() to the methods at the top */
int boxing_show(lua_State *L); /* show() of a record of rille.boxing */
int show_drawn(lua_State *L);  /* the Lua function rille._show */
/* Draws a picture in Lua: calls the function returned by lua/show/NAME.lua with all values on the stack. */
int picture_call(lua_State *L, const char *name);
/* Sets the metatable with which the table at the top prints as text: a field of rille.show.records. */
void print_as(lua_State *L, const char *kind);

/* ---- lua_actors.c ---- */

void actors_push(lua_State *L, struct rille_graph *g); /* NULL: actors of the plan that ran last */

/* ---- lua_chart.c: the schedule of a step ---- */

/* Reads the costs at i: {forward =, ...} or a chart. Returns false for nil or none. who: prefix of errors. */
bool chart_costs(lua_State *L, int i, const char *who, struct rille_chart_costs *out);
void renamed_fields(lua_State *L); /* lets the table at the top accept old field names, with a warning */
void chart_push(lua_State *L, struct rille_graph *g, int costs); /* costs: stack index of a table of costs, or of nil */

/* ---- value.c: dtypes as Lua values ---- */

struct value_kind {
    const char *name;
    int bytes;
    int (*store)(void *at, bool is_int, int64_t i, double f); /* returns 0; -1: the number does not fit */
    double (*real)(const void *at);                           /* for float dtypes, else NULL */
    int64_t (*integer)(const void *at);                       /* for other dtypes, else NULL */
    int64_t low, high;                                        /* range in which every integer is representable */
};
const struct value_kind *value_kind(const char *dtype); /* returns NULL for an unknown dtype */
double value_real(double v);                            /* returns v; NaN with the sign bit cleared, to print "nan" */
void value_push(lua_State *L, const struct value_kind *k, const void *at);

/* ---- print.c ---- */

void print_tensor(lua_State *L, struct rille_tensor *t); /* pushes the tensor as text */
void print_line(lua_State *L, int i); /* pushes a line about the tensor at i; with its values if few */

/* ---- fold.c ---- */

int terminal_columns(int fd); /* returns 0 if fd is not a terminal */
int print_columns(void);      /* columns of the terminal; 80 without a terminal */
/* Returns the text wrapped at words to `columns`; the caller frees it. NULL: out of memory. */
char *fold_text(const char *text, int columns);
void fold_push(lua_State *L, const char *text); /* pushes the text wrapped for stdout */
void fold_print(const char *text);              /* prints the text wrapped, and a newline */

/* ---- help.c ---- */

bool help_push(lua_State *L, const char *name); /* pushes the page; false: no such page */
/* Pushes a list of the pages that have the words of the question, best first; returns false if there are none. */
bool help_push_found(lua_State *L, const char *question);
/* Pushes the call syntax of the Rille function or class at i; returns false if it is not one. */
bool help_push_call(lua_State *L, int i);
bool help_push_about(lua_State *L, int i); /* pushes the page of a value, or of its kind; false: none */
/* Returns the error message for a name that has no page. May push a new value for the text. */
const char *help_missing(lua_State *L, const char *name);
void help_open(lua_State *L);

/* ---- text_only.c ---- */

void text_only_open(lua_State *L); /* call after Lua's libraries are open, before a searcher is added */

/* ---- coroutine.c: autocast and recompute regions belong to the coroutine that entered them ---- */

void coroutine_open(lua_State *L);

/* ---- pattern.c: lets Ctrl-C stop long-running functions of Lua's library ---- */

void pattern_open(lua_State *L);
void pattern_stop(void);    /* makes the running match raise "interrupted"; safe in a signal handler */
bool pattern_refused(void); /* returns true if Ctrl-C made an allocation fail since the last call */

/* ---- interrupt.c: Ctrl-C ---- */

void interrupt_open(lua_State *L);
void interrupt_start(lua_State *L); /* from now on Ctrl-C stops running code */
void interrupt_stop(void);          /* restores the previous handling of Ctrl-C */
int interrupt_count(void);          /* returns the presses since interrupt_start() */
bool interrupt_untold(void);        /* at a prompt: returns true if a press has not reached the running code */
void interrupt_interactive(void);   /* from now on Ctrl-C returns to the prompt, and never ends the program */
void interrupt_catch(void);         /* from now on signals like SIGTERM end the program in an orderly way */
int interrupt_quit(void);           /* returns the signal that asked the program to end; 0: none */
/* Sets the function that is called between two Lua instructions, outside core calls, soon after interrupt_knock().
 * The function may call run_quiet() on a state of its own. interrupt_visit() stops that run. Knock and visit are
 * safe in a signal handler. */
void interrupt_visitor(void (*come)(lua_State *L));
void interrupt_knock(void);
void interrupt_visit(void);

/* ---- run.c ---- */

/* Prints an error to stderr; control characters, as in names and files, are escaped like Lua's: \27. */
void tell_error(const char *text);
void tell_line(const char *text); /* prints an error as a line that begins with "rille: " */
/* Calls lua_pcall with Ctrl-C enabled; an error leaves its text and a traceback on the stack. Returns LUA_OK or
 * Lua's error code. */
int run_quiet(lua_State *L, int nargs, int nresults);

void make_folders(const char *path); /* creates the parent folders of a file */

/* ---- repl.c, command.c, complete.c ---- */

int repl_run(lua_State *L); /* runs until :quit or the end of input; returns the exit code */

#endif
