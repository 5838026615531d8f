/* shell.h - struct shell, one per Lua state; kinds of userdata; memory. Every file of the shell uses it.
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

#endif
