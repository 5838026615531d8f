/* shell.h - what the files of the shell share: one struct beside the Lua state, and the functions of each.
 *
 * The shell is Lua's side of rille.h. Each function that Lua calls does three things: check the arguments, name the
 * user's line and call the core, push the result or raise. Nothing here owns values: a tensor in Lua is a userdata that
 * holds one handle, which __gc gives back. The struct shell lives in the userdata that shell_open() makes first, so
 * that closing the Lua state frees it, and with it the session, last. One thread has the Lua state, and calls all of
 * this. */
#ifndef RILLE_SHELL_SHELL_H
#define RILLE_SHELL_SHELL_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "rille.h"

#include <limits.h>

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
    int number;      /* 0: there is none */
    char inside[64]; /* "nn.Linear" where the call went through a module of Rille's own, else "" */
};

struct environment {
    struct rille_options options;
    const char *trace;     /* RILLE_TRACE: a file for the trace of each graph, or NULL */
    const char *transport; /* RILLE_TRANSPORT: "tcp" or "mpi", or NULL */
    char cost[PATH_MAX];   /* file of what moves cost, "" when there is no place for it */
    char error[PATH_MAX];  /* after a failure */
};

struct shell {
    struct rille_session *session;
    lua_State *main;         /* the state that is no coroutine */
    lua_State *running;      /* the state whose call is in the core now: live numbers run on it */
    const void *meta[NKIND]; /* metatables, as lua_topointer() tells them */
    struct line line;        /* what the last rille_at() said */
    bool asking;             /* a run that begins asks Lua for a live number */
    const char *trace;       /* RILLE_TRACE: a file for the trace of each graph, or NULL */
    int ntrace;
    const struct graph *tracing;                   /* the one whose function is being traced (lua_graph.c), or NULL */
    int64_t ninterrupt;                            /* how often "interrupted" was raised */
    void (*cancelled)(void);                       /* the shell calls it when Ctrl-C has cancelled a run; or NULL */
    void (*entered)(lua_State *co), (*left)(void); /* a coroutine begins or goes on to run; it runs no more; or NULL */
    /* Shows a document of this MIME type, and as plain text, where a notebook can; or NULL. */
    void (*display)(const char *type, const char *text, const char *plain);
    unsigned made;      /* tensors pushed, ever */
    int64_t collect_at; /* a collection is due when so many bytes hang on handles */
    bool color;
    struct rille_saving *saving; /* in the background; NULL: none */
    char lost[512];              /* what the core said of the last lost worker */
};

/* The shell of the state; coroutines share it. */
struct shell *shell_of(lua_State *L);

/* ---- environment.c ---- */

/* RILLE_DEVICES, RILLE_SEED and the others; non-zero: error says what is wrong with them. */
int environment_read(struct environment *e);
/* The file `name` of Rille's in the folder that the variable xdg names, else in under_home of the user's home; false
 * when there is no place for it. */
bool environment_path(const char *xdg, const char *under_home, const char *name, char path[PATH_MAX]);

/* ---- modules.c: the modules written in Lua, which are inside ---- */

/* Loads rille.NAME ("nn.linear"): LUA_OK and the function, Lua's code and a message, or MODULE_NONE and nothing. */
enum { MODULE_NONE = -1 };
int module_load(lua_State *L, const char *name);
bool module_exists(lua_State *L, const char *name);
/* Is this the source of one of them, as lua_Debug tells it? */
bool module_is_source(const char *source);

/* ---- lua_rille.c: the module ---- */

/* Opens the session and pushes the module, which require finds from now on. When the core fails, pushes nothing and
 * gives its code; rille_error() says why. */
int shell_open(lua_State *L, const struct environment *e);
/* Pushes a zeroed userdata of this kind; it is Lua's. */
void *kind_new(lua_State *L, enum kind kind, size_t size);
/* The userdata at index i if it is of this kind, else NULL; also when the session is closed: what Lua makes while it
 * closes a state has no finaliser, and outlives its handle. */
void *kind_test(lua_State *L, int i, enum kind kind);
/* Pushes the metatable of a new kind, with the name and these functions. */
void kind_make(lua_State *L, enum kind kind, const char *name, const luaL_Reg *methods);
/* Raises unless the host has so many bytes: Lua's own error tells no line. scratch_new pushes a userdata of them. */
void room_check(lua_State *L, const char *who, size_t bytes);
void *scratch_new(lua_State *L, const char *who, size_t bytes);
/* Raises unless the table at i has only the keys of the NULL-ended list (and integers). who: for the message. */
void check_keys(lua_State *L, int i, const char *who, const char *const *keys);
/* Raises unless the keys of the table at i are 1 to its length. */
void check_list(lua_State *L, int i, const char *who);
/* Collects Lua's garbage when many bytes hang on handles. Call it where no core call is in progress. */
void collect_if_due(lua_State *L);

/* ---- lua_error.c: lines and errors ---- */

/* The user's line. */
void user_line(lua_State *L, struct line *line);
/* Names it to the core: before each call that adds nodes or may fail. */
void at_line(lua_State *L);
/* Raises what the core said, with the line before it, and who between them unless the core names it (NULL: nobody). */
int raise_core(lua_State *L, const char *who);
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
/* Raises a message of the shell's own, with the line before it. */
int complain(lua_State *L, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The string at i for the core, whose texts end at a zero byte: raises for one that goes on, and for what is none. */
const char *text_at(lua_State *L, int i, const char *who);
/* The number at i, whole or any: false for what is none, a text of digits too (Lua itself would read that). */
bool whole_at(lua_State *L, int i, int64_t *out);
bool real_at(lua_State *L, int i, double *out);
/* The number at i as text, which is a new value on the stack: "2.5", "nan" whatever its sign. */
const char *number_text(lua_State *L, int i);
/* What an argument is, for messages: "a tensor", "the number 2.5". The text may be a new value on the stack. */
const char *what_is(lua_State *L, int i);

/* ---- lua_workers.c: worker processes ---- */

void workers_open(lua_State *L);   /* into the module table at the top */
void lost_remember(lua_State *L);  /* after a failure of the core: was it the loss of a worker? */
bool lost_is(lua_State *L, int i); /* does the text at i tell of one? */

/* ---- names.c: misspelt names ---- */

struct nearest { /* NULL: none is near */
    const char *name;
    int changes;
};
void names_open(lua_State *L); /* into the module table at the top */
/* Sets *best to the key of the table that a misspelt name may mean, if it is nearer than best. The table keeps it. */
void name_nearest(lua_State *L, int table, const char *name, struct nearest *best);
/* How Rille says what other programs call so: scope "" (a global), "tensor", "rille"; NULL: it does not know. */
const char *name_elsewhere(const char *scope, const char *name);
/* "; the nearest name is 'x'" or "", for the end of a message; the text may be a new value on the stack. */
const char *name_hint(lua_State *L, const struct nearest *best);

/* ---- lua_place.c: placements and layouts ---- */

void place_open(lua_State *L); /* into the module table at the top */
void place_push(lua_State *L, const struct rille_place *p);
const struct rille_place *place_check(lua_State *L, int i); /* raises */
/* B on every mesh axis. */
const struct rille_layout *broadcast_layout(lua_State *L, const struct rille_place *p);
/* The layout that the fields placement and sbp of the table at i describe; like gives the one that is absent (NULL:
 * device 0 of the default kind, B); NULL when both are. who: for messages. */
const struct rille_layout *layout_read(lua_State *L, int i, const char *who, int ndim, const struct rille_layout *like);
/* Is the sbp of the options at i "auto"? layout_read() then gives B; the caller marks the tensor by
 * rille_tensor_auto(). */
bool layout_auto(lua_State *L, int i);

/* ---- lua_tensor.c, lua_index.c: tensors ---- */

void tensor_open(lua_State *L);
/* Pushes an empty slot for a handle: fill it at once. */
struct rille_tensor **tensor_slot(lua_State *L);
struct rille_tensor *tensor_test(lua_State *L, int i);                   /* NULL when it is none */
struct rille_tensor *tensor_check(lua_State *L, int i, const char *who); /* raises */
void tensor_list(lua_State *L, int i, const char *who, int max, struct rille_tensor **out, int *n);
void push_shape(lua_State *L, int n, const int64_t *shape);
void leaves_open(lua_State *L); /* lua_leaves.c, into the module table at the top: variables that change together */
int index_get(lua_State *L);    /* x[key], x[key] = v for what is no name */
int index_set(lua_State *L);
int index_pairs(lua_State *L);
void index_open(lua_State *L); /* split, chunk */

/* ---- lua_op.c: operators ---- */

void op_open(lua_State *L);
/* Calls an operator that is part of something else; pushes its first result and returns it. */
struct rille_tensor *op_apply(lua_State *L, const char *name, int nargs, const struct rille_arg *args, int nattrs,
                              const struct rille_attr *attrs);
/* strategy = {{2, 1}, {1, 4}}, at index i: how often the next call cuts each axis of each operand. Returns what is
 * wrong with it, which stays on the stack; NULL: nothing. */
const char *op_strategy(lua_State *L, int i);
/* Pushes an operator's function, nil when there is no such operator; unary: the one for Lua's own unary operators,
 * which give their operand twice. */
void op_push(lua_State *L, const char *name);
void op_push_unary(lua_State *L, const char *name);
/* Adds "x is f32{4, 5} S(0) on cpu[0, 1]". */
void tensor_describe(lua_State *L, luaL_Buffer *b, const char *name, struct rille_tensor *t);

/* ---- lua_create.c: new tensors ---- */

struct options {       /* of a creation */
    const char *dtype; /* NULL: the table does not say */
    const struct rille_layout *layout;
    bool requires_grad;
    bool planned; /* sbp = "auto" */
    const char *name;
};
void create_open(lua_State *L);
void options_read(lua_State *L, int i, const char *who, int ndim, struct options *o); /* i may hold nil or none */
void options_apply(lua_State *L, const struct options *o, struct rille_tensor *t);
int shape_read(lua_State *L, int *i, const char *who, int64_t *shape); /* table, or numbers from *i on; moves *i */

/* ---- lua_conditions.c; the graph is at index 1 ---- */

enum { GRAPH_CONDITIONS = 3 };       /* the user value where those of its last trace are */
void conditions_begin(lua_State *L); /* a trace is being made */
/* Its function has returned: what it leaves is what must stay; or it failed. Not 0: it did, with the error at the top.
 */
int conditions_end(lua_State *L, int failed);
void conditions_give(lua_State *L); /* the trace at the top gets them */
bool conditions_hold(lua_State *L); /* do those of the trace at the top all give true? Raises what they raise. */
void conditions_open(lua_State *L); /* the table at the top gets _conditions, _first_changed */

/* ---- lua_graph.c, lua_live.c, lua_explain.c ---- */

void graph_open(lua_State *L);
void live_open(lua_State *L);
/* Adds to the whole number that the table at i has under the key at i + 1, and returns it; no Lua runs. */
lua_Integer count_field(lua_State *L, int i, int more);
void live_raise(lua_State *L); /* after a failure: raises what a live number's function raised, if that was why */
void explain_open(lua_State *L);
void explain_push(lua_State *L, struct rille_explain **e); /* takes it */
void text_push(lua_State *L, char **text);                 /* a table that prints as this text; takes it */
bool plan_physical(lua_State *L, int i);                   /* the option of plan() in the table at i */

/* ---- lua_file.c: files ---- */

void files_open(lua_State *L);
/* Waits for a save in the background; raises what it failed of. */
void files_finish(lua_State *L);

/* ---- lua_tokens.c: ids to train on ---- */

void tokens_open(lua_State *L);
void tokens_close(lua_State *L); /* all of them: they do not hang on the session */

/* ---- lua_tokenizer.c: text to ids ---- */

void tokenizers_open(lua_State *L);

/* ---- lua_json.c: JSON as Lua values ---- */

void json_open(lua_State *L);

/* ---- lua_show.c: pictures ---- */

void show_open(lua_State *L);  /* x:show(), into the methods at the top */
int boxing_show(lua_State *L); /* the method of a boxing's record */
int show_drawn(lua_State *L);  /* rille._show */
/* Draws a picture in Lua: calls the function that lua/show/NAME.lua gives with what is on the stack. */
int picture_call(lua_State *L, const char *name);

/* ---- lua_actors.c ---- */

void actors_push(lua_State *L, struct rille_graph *g); /* a list of them; NULL: of the plan that ran last */

/* ---- lua_chart.c: the schedule of a step ---- */

/* Reads the costs at i, {forward =, ...} or a chart; false: nothing is there. Errors speak of `who`. */
bool chart_costs(lua_State *L, int i, const char *who, struct rille_chart_costs *out);
void chart_push(lua_State *L, struct rille_graph *g, int costs); /* costs: index of a table, nil or nothing */

/* ---- value.c: dtypes as Lua values ---- */

struct value_kind {
    const char *name;
    int bytes;
    int (*store)(void *at, bool is_int, int64_t i, double f); /* 0, or -1 when the number does not fit */
    double (*real)(const void *at);                           /* of a float dtype, else NULL */
    int64_t (*integer)(const void *at);                       /* of the others */
    int64_t low, high;                                        /* every whole number from .. to is a value of it */
};
const struct value_kind *value_kind(const char *dtype); /* NULL: unknown */
double value_real(double v);                            /* v; of all NaN the one that prints without a sign */
void value_push(lua_State *L, const struct value_kind *k, const void *at);
void value_dtypes(lua_State *L); /* pushes "f32 f64 ..." */

/* ---- print.c ---- */

int print_columns(void); /* of the terminal; where there is none, lines have an end all the same */
void print_tensor(lua_State *L, struct rille_tensor *t); /* pushes its text */
void print_line(lua_State *L, int i); /* pushes what the tensor at i is, in a line; of few values, with them */

/* ---- fold.c ---- */

int terminal_columns(int fd); /* 0: fd is no terminal */
/* The text with lines of so many columns at most, which end at words; the caller frees it. NULL: no memory. */
char *fold_text(const char *text, int columns);
void fold_push(lua_State *L, const char *text); /* pushes it as stdout has columns for it */
void fold_print(const char *text);              /* prints it so, and ends the line */

/* ---- help.c ---- */

bool help_push(lua_State *L, const char *name); /* pushes the page; false: no page has that name */
/* Pushes how the function or class of ours at i is called; false: it is none. */
bool help_push_call(lua_State *L, int i);
bool help_push_about(lua_State *L, int i); /* pushes the page of a value, or of its kind; false: it has none */
/* No page has that name: the message, a new value on the stack. */
const char *help_missing(lua_State *L, const char *name);
void help_open(lua_State *L);

/* ---- text_only.c ---- */

void text_only_open(lua_State *L); /* Lua's libraries are open, and no searcher was added */

/* ---- coroutine.c: autocast and regions that are computed again belong to the coroutine that is in them ---- */

void coroutine_open(lua_State *L);

/* ---- pattern.c: what Lua's own library does for long, so that Ctrl-C stops it ---- */

void pattern_open(lua_State *L);
void pattern_stop(void);    /* the call that matches now, in a signal handler too: it raises "interrupted" */
bool pattern_refused(void); /* since the last time: memory, for the sake of a press */

/* ---- interrupt.c: Ctrl-C ---- */

void interrupt_open(lua_State *L);
void interrupt_start(lua_State *L); /* from now on Ctrl-C stops what runs */
void interrupt_stop(void);          /* Ctrl-C does what it did before */
int interrupt_count(void);          /* presses since interrupt_start() */
bool interrupt_untold(void);        /* is there one at a prompt that what runs was not told of? */
void interrupt_interactive(void);   /* from now on Ctrl-C leads back to the prompt, and no press ends the program */
int interrupt_quit(void);           /* the signal that wants the program to end; 0: none */
/* Who is called between two instructions of Lua, and not inside a call of the core, soon after interrupt_knock(); it
 * may run_quiet() on a state of its own. knock, and visit, which stops what that runs: in a signal handler too. */
void interrupt_visitor(void (*come)(lua_State *L));
void interrupt_knock(void);
void interrupt_visit(void);

/* ---- main.c ---- */

/* To stderr; control characters, which names and files may have, as Lua writes them: \27. */
void tell_error(const char *text);
/* lua_pcall with Ctrl-C; an error leaves its text and a traceback on the stack. LUA_OK or Lua's code. */
int run_quiet(lua_State *L, int nargs, int nresults);

void make_folders(const char *path); /* those that the file is in */

/* ---- repl.c, command.c, complete.c ---- */

int repl_run(lua_State *L); /* until :quit or the end of input; the exit code */

#endif
