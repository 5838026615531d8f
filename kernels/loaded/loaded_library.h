/* loaded_library.h - opens libraries of operators, which live as long as the process. One thread at a time. */
#ifndef RILLE_KERNELS_EXEC_LOADED_LIBRARY_H
#define RILLE_KERNELS_EXEC_LOADED_LIBRARY_H

/* Loads all operators of a library, or none. Returns 0 at once if they are loaded already. E_IO: the file is no shared
 * library. E_ARG, E_SBP: a record is wrong. */
int loaded_open(const char *path);
/* Loads the libraries that the environment variable RILLE_OPERATORS lists, separated by ':'. */
int loaded_from_environment(void);

#endif
