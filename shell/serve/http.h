/* http.h - an HTTP server whose requests are answered by another thread: the transport of rille serve.
 *
 * A thread of libmicrohttpd reads requests. A complete request waits in a bounded queue, and its connection sleeps
 * until the owner of the server answers: by one body, or by a stream of pieces. The owner names a request by its
 * number. When the client goes away, the number becomes unknown, and further answers do nothing.
 *
 * The owner is one thread; a mutex guards the requests. The functions of libmicrohttpd that wake a connection are
 * called without the mutex, because libmicrohttpd calls back with its own locks held. */
#ifndef RILLE_SHELL_HTTP_H
#define RILLE_SHELL_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http;

struct http_options {
    const char *host; /* numeric address */
    int port;         /* 0: any free port */
    size_t body;      /* maximum bytes of a request's body */
    int queue;        /* maximum number of requests that wait for http_receive() */
    int connections;  /* maximum number of open connections */
};

struct http_request { /* strings are valid until the request is answered completely, or http_close() */
    int64_t id;
    const char *method, *path, *type, *body; /* type: Content-Type, or "" */
    size_t size;                             /* bytes of the body */
};

/* Opens a listening socket at a numeric address. *port: 0 for any free port; set to the port. Returns the socket;
 * HTTP_NO_ADDRESS: the host is not a numeric address; -1: errno says why. */
enum { HTTP_NO_ADDRESS = -2 };
int http_listen(const char *host, int *port);
/* Opens a server. Returns NULL, and writes the cause to `why`, if the address is invalid or in use. */
struct http *http_open(const struct http_options *o, char why[200]);
int http_port(const struct http *h);
/* Waits up to `seconds` for a request. Returns false if none has arrived. */
bool http_receive(struct http *h, double seconds, struct http_request *r);
/* Begins the answer: status, Content-Type, and the first piece. If `last`, the answer is complete. Returns false if the
 * client is gone. */
bool http_answer(struct http *h, int64_t id, int status, const char *type, const char *text, size_t size, bool last);
/* Appends a piece to an answer that was begun. Returns false if the client is gone, or does not read. */
bool http_send(struct http *h, int64_t id, const char *text, size_t size, bool last);
/* Returns true if the client of a request is still connected. */
bool http_connected(struct http *h, int64_t id);
/* Closes the connection of a request without an answer. */
void http_drop(struct http *h, int64_t id);
/* Sends what has been answered, for up to `seconds`, then closes all connections. NULL: none. */
void http_close(struct http *h, double seconds);

#endif
