rockspec_format = "3.0"
package = "rille"
version = "0.1.0-1"
source = {url = "rille-0.1.0.tar.gz", dir = "rille-0.1.0"} -- made by git archive, see docs/library.md
description = {
  summary = "Tensor programs on many devices as if they were one",
  detailed = "Placements, SBP layouts, boxing, compiled steps and pipelines; require \"rille\" in plain Lua.",
  license = "Apache-2.0",
}
dependencies = {"lua >= 5.4, < 5.5"}
build_dependencies = {}
build = {
  type = "cmake",
  variables = {
    CMAKE_BUILD_TYPE = "None",
    CMAKE_C_FLAGS = "-O2",
    CMAKE_INSTALL_PREFIX = "$(PREFIX)",
    RILLE_ROCK = "ON",
    RILLE_TESTS = "OFF",
    RILLE_CUDA = "OFF",
    RILLE_LUA_MODULES = "$(LIBDIR)",
  },
}
