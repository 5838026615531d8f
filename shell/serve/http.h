/* http.h - an HTTP server whose requests are answered by another thread: the transport of rille serve.
 *
 * A thread of libmicrohttpd reads requests. A complete request waits in a bounded queue. The connection of the
 * request is suspended until the owner of the server answers, with one body or a stream of pieces. The owner refers
 * to a request by its number (id). When the client disconnects, the number becomes unknown, and further answers do
 * nothing.
 *
 * The owner is one thread; a mutex guards the requests. The functions of libmicrohttpd that resume a connection are
 * called with the mutex unlocked, because libmicrohttpd calls back with its own locks held. */
#ifndef RILLE_SHELL_HTTP_H
#define RILLE_SHELL_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http;

struct http_options {
    const char *host; /* numeric address to listen at */
    int port;         /* port to listen at; 0: any free port */
    size_t body;      /* maximum bytes of a request's body */
    int queue;        /* maximum number of requests that wait for http_receive() */
    int connections;  /* maximum number of open connections */
};

/* a request; the strings are valid until the request is answered completely, or until http_close() */
struct http_request {
    int64_t id;
    const char *method, *path, *type, *body; /* type: header Content-Type, or "" */
    size_t size;                             /* bytes of the body */
};

/* Opens a listening socket at a numeric address. *port: the port, or 0 for any free port; set to the port in use.
 * Returns the socket; HTTP_NO_ADDRESS: the host is not a numeric address; -1: errno says why. */
enum { HTTP_NO_ADDRESS = -2 };
int http_listen(const char *host, int *port);
/* Starts a server. Returns NULL, and writes the cause to `why`, if the address is invalid or in use. */
struct http *http_open(const struct http_options *o, char why[200]);
int http_port(const struct http *h);
/* Waits up to `seconds` for a request. Returns false if none has arrived. */
bool http_receive(struct http *h, double seconds, struct http_request *r);
/* Begins the answer: status, Content-Type, and the first piece. If `last`, the answer is complete. Returns false if
 * the client has disconnected. */
bool http_answer(struct http *h, int64_t id, int status, const char *type, const char *text, size_t size, bool last);
/* Appends a piece to an answer that was begun. Returns false if the client has disconnected, or does not read the
 * stream. */
bool http_send(struct http *h, int64_t id, const char *text, size_t size, bool last);
/* Returns true if the client of a request is still connected. */
bool http_connected(struct http *h, int64_t id);
/* Closes the connection of a request without an answer. */
void http_drop(struct http *h, int64_t id);
/* Continues to send the answers for up to `seconds`, then closes all connections and the server. h NULL: does
 * nothing. */
void http_close(struct http *h, double seconds);

#endif
