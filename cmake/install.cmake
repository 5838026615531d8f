# install.cmake - installed files: librille.so, librille.a, rille.h, rille_operator.h, pkg-config and CMake files, the module
# of plain Lua, the program, its pages, completions of shells, examples. debian/ divides the same files among packages.

# ---- the shared library: only rille_*, with the version of the symbols

set(RILLE_ABI 0)
file(WRITE ${CMAKE_BINARY_DIR}/librille.map "RILLE_${RILLE_ABI} { global: rille_*; local: *; };\n")
add_library(rille_shared SHARED $<TARGET_OBJECTS:librille>)
set_target_properties(rille_shared PROPERTIES OUTPUT_NAME rille EXPORT_NAME rille LINKER_LANGUAGE C
  VERSION ${PROJECT_VERSION} SOVERSION ${RILLE_ABI} LINK_DEPENDS ${CMAKE_BINARY_DIR}/librille.map)
target_link_libraries(rille_shared PRIVATE $<TARGET_PROPERTY:librille,LINK_LIBRARIES>)
# The library stays loaded after dlclose(), because threads of the caller may own helper threads that run its code.
target_link_options(rille_shared PRIVATE -Wl,--version-script=${CMAKE_BINARY_DIR}/librille.map -Wl,-z,nodelete)
if(NOT RILLE_SANITIZE)
  target_link_options(rille_shared PRIVATE -Wl,-z,defs)
endif()

# ---- the archive: one object, whose hidden names are local

add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/librille.a
  COMMAND ${CMAKE_COMMAND} -E rm -f librille.a
  COMMAND ${CMAKE_LINKER} -r -o librille.o --whole-archive $<TARGET_FILE:librille>
  COMMAND ${CMAKE_OBJCOPY} --strip-debug --wildcard --keep-global-symbol=rille_* librille.o
  COMMAND ${CMAKE_AR} rcs librille.a librille.o
  DEPENDS librille WORKING_DIRECTORY ${CMAKE_BINARY_DIR} VERBATIM)
add_custom_target(rille_archive ALL DEPENDS ${CMAKE_BINARY_DIR}/librille.a)

# ---- the module of plain Lua 5.4: only luaopen_rille; Lua's own names are the host's

file(WRITE ${CMAKE_BINARY_DIR}/module.map "{ global: luaopen_rille; local: *; };\n")
add_library(rille_lua MODULE $<TARGET_OBJECTS:rille_module>)
set_target_properties(rille_lua PROPERTIES OUTPUT_NAME rille PREFIX "" LINKER_LANGUAGE C
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lua LINK_DEPENDS ${CMAKE_BINARY_DIR}/module.map)
target_link_libraries(rille_lua PRIVATE rille_flags $<IF:$<BOOL:${RILLE_ROCK}>,librille,rille_shared> PkgConfig::FORMATS m)
target_link_options(rille_lua PRIVATE -Wl,--version-script=${CMAKE_BINARY_DIR}/module.map)

# ---- files for other build systems

# Linker names of the libraries that the archive uses: shared libraries, whose own dependencies need no listing.
set(RILLE_NEEDS "")
get_target_property(linked librille LINK_LIBRARIES)
foreach(item ${linked}) # PkgConfig::ZMQ was found as ZMQ
  if(item MATCHES "^PkgConfig::(.+)$")
    list(APPEND RILLE_NEEDS ${${CMAKE_MATCH_1}_LIBRARIES})
  endif()
endforeach()
set(RILLE_LINK "")
if(RILLE_DNNL)
  get_filename_component(folder ${DNNL_LIBRARY} DIRECTORY)
  list(APPEND RILLE_LINK -L${folder} -Wl,-rpath,${folder})
endif()
foreach(library ${RILLE_NEEDS} ${DNNL_LIBRARY} ${OpenMP_C_LIB_NAMES} m dl pthread)
  get_filename_component(name ${library} NAME_WE)
  string(REGEX REPLACE "^lib" "" name ${name})
  list(APPEND RILLE_LINK -l${name})
endforeach()
list(REMOVE_DUPLICATES RILLE_LINK)
list(JOIN RILLE_LINK " " RILLE_PC_LINK)
file(RELATIVE_PATH RILLE_PC_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /) # from rille.pc to the prefix, which can be moved
string(REGEX REPLACE "/$" "" RILLE_PC_UP ${RILLE_PC_UP})
configure_file(cmake/rille.pc.in rille.pc @ONLY)

include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/rille-config.cmake.in rille-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rille PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(rille-config-version.cmake COMPATIBILITY SameMinorVersion)
target_include_directories(rille_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# Programs that compute need libm, so the CMake and pkg-config files link it.
target_link_libraries(rille_shared INTERFACE m)

# ---- files that the program makes: the man page, help as two pages, completions of shells, and stubs for the Lua language server

set(RILLE_PAGES "")
foreach(page man:rille.1 stubs:luals/rille.lua pages:docs/pages.md operators:docs/operators.md
        completions:completions/rille:bash completions:completions/_rille:zsh) # docs/NAME.lua prints FILE; its argument
  string(REPLACE ":" ";" page ${page})
  list(POP_FRONT page name file)
  get_filename_component(folder ${file} DIRECTORY)
  add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/${file}
    COMMAND ${CMAKE_COMMAND} -E make_directory ./${folder}
    COMMAND rille --no-init -d cpu:1 ${CMAKE_SOURCE_DIR}/docs/${name}.lua ${page} > ${file}
    DEPENDS rille docs/${name}.lua WORKING_DIRECTORY ${CMAKE_BINARY_DIR} VERBATIM)
  list(APPEND RILLE_PAGES ${CMAKE_BINARY_DIR}/${file})
endforeach()
add_custom_target(rille_pages ALL DEPENDS ${RILLE_PAGES})

# ---- destinations

set(RILLE_ZSH site-functions CACHE STRING "folder of completions in share/zsh")
set(RILLE_LUA_MODULES ${CMAKE_INSTALL_PREFIX}/lib/lua/5.4 CACHE PATH "where plain Lua 5.4 looks for modules in C")
file(RELATIVE_PATH lua_modules ${CMAKE_INSTALL_PREFIX} ${RILLE_LUA_MODULES})
if(lua_modules MATCHES "^\\.\\.")
  set(lua_modules ${RILLE_LUA_MODULES})
endif()
if(RILLE_ROCK) # files for LuaRocks
  install(TARGETS rille_lua LIBRARY DESTINATION ${lua_modules})
  set_target_properties(rille rille_program rille_shared rille_archive rille_pages PROPERTIES EXCLUDE_FROM_ALL ON)
  return()
endif()
# Program and module find librille.so by relative paths, so that the prefix can be moved.
add_executable(rille_installed)
target_link_libraries(rille_installed PRIVATE rille_program rille_module rille_shared)
file(RELATIVE_PATH from_program /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
set_target_properties(rille_installed PROPERTIES OUTPUT_NAME rille RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/installed
  INSTALL_RPATH $ORIGIN/${from_program})
if(IS_ABSOLUTE ${lua_modules})
  set_target_properties(rille_lua PROPERTIES INSTALL_RPATH ${CMAKE_INSTALL_FULL_LIBDIR})
else()
  file(RELATIVE_PATH from_module /${lua_modules} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(rille_lua PROPERTIES INSTALL_RPATH $ORIGIN/${from_module})
endif()
install(TARGETS rille_installed RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS rille_shared EXPORT rille LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS rille_lua LIBRARY DESTINATION ${lua_modules})
install(FILES ${CMAKE_BINARY_DIR}/librille.a DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES rille.h rille_operator.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_BINARY_DIR}/rille.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(EXPORT rille FILE rille-targets.cmake NAMESPACE rille:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rille)
install(FILES ${CMAKE_BINARY_DIR}/rille-config.cmake ${CMAKE_BINARY_DIR}/rille-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rille)
install(FILES ${CMAKE_BINARY_DIR}/rille.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${CMAKE_BINARY_DIR}/completions/rille DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${CMAKE_BINARY_DIR}/completions/_rille DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${RILLE_ZSH})
install(FILES ${CMAKE_BINARY_DIR}/luals/rille.lua DESTINATION ${CMAKE_INSTALL_DATADIR}/rille/luals)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DATADIR}/rille USE_SOURCE_PERMISSIONS)
# The Python package as source, from which pip makes a wheel. In the tree, its rille.h is a link.
install(DIRECTORY python DESTINATION ${CMAKE_INSTALL_DATADIR}/rille
  FILES_MATCHING PATTERN "*.py" PATTERN "*.toml" PATTERN "*.ipynb" PATTERN build EXCLUDE PATTERN "*.egg-info" EXCLUDE
  PATTERN __pycache__ EXCLUDE)
install(FILES rille.h DESTINATION ${CMAKE_INSTALL_DATADIR}/rille/python/rille)
# Pages for users link to each other and to nothing else of the tree. `docs` makes a web site of the same pages.
file(GLOB RILLE_DOCS CONFIGURE_DEPENDS docs/*.md docs/sight-*.svg)
list(APPEND RILLE_DOCS ${CMAKE_BINARY_DIR}/docs/pages.md ${CMAKE_BINARY_DIR}/docs/operators.md
  ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/GLOSSARY.md ${CMAKE_SOURCE_DIR}/CHANGELOG.md)
install(DIRECTORY docs/guide DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${RILLE_DOCS} DESTINATION ${CMAKE_INSTALL_DOCDIR})
set(site_pages ${CMAKE_BINARY_DIR}/site-pages)
add_custom_target(docs
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${site_pages}
  COMMAND ${CMAKE_COMMAND} -E copy_directory ${CMAKE_SOURCE_DIR}/docs/guide ${site_pages}/guide
  COMMAND ${CMAKE_COMMAND} -E copy ${RILLE_DOCS} ${site_pages}
  COMMAND ${CMAKE_SOURCE_DIR}/docs/site.sh $<TARGET_FILE:rille> ${site_pages} ${CMAKE_BINARY_DIR}/site
  COMMAND ${CMAKE_COMMAND} -E echo "the site is ${CMAKE_BINARY_DIR}/site/index.html"
  DEPENDS rille ${CMAKE_BINARY_DIR}/docs/pages.md ${CMAKE_BINARY_DIR}/docs/operators.md VERBATIM)
