/* lua_chart.h - the schedule of a step. Only the thread that owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_STEP_LUA_CHART_H
#define RILLE_SHELL_BIND_STEP_LUA_CHART_H

#include "shell/bind/base/shell.h"

/* Reads the costs for the chart from the value at i, which is {forward =, ...} or a chart. Returns false for nil
 * or none. who: prefix of errors. */
bool chart_costs(lua_State *L, int i, const char *who, struct rille_chart_costs *out);
void renamed_fields(lua_State *L); /* makes the table at the top accept old field names, with a warning */
/* pushes the chart; costs: stack index of a table of costs, or of nil */
void chart_push(lua_State *L, struct rille_graph *g, int costs);

#endif
