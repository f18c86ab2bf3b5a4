# Installs components of a build tree, then configures, builds and runs a project that stands outside
# the tree with one compiler, as its author would: out_of_tree with the component `author`, worker
# with `worker`, the others with `runtime`, too.
#   cmake -DTREE=... -DSCRATCH=... -DCOMPILER=... -DSTANDARD=20 -DPROJECT=embedded -P out_of_tree_test.cmake
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${code}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# Nothing but `author` comes with its component: no engine, no store.
function(check_author_headers)
  file(STRINGS ${TREE}/install_manifest_author.txt installed REGEX "\\.h$")
  foreach(header IN LISTS installed)
    if(NOT header MATCHES "/include/headworks/(author|base|model)/")
      message(FATAL_ERROR "component author installs ${header}")
    endif()
  endforeach()
  if(NOT installed)
    message(FATAL_ERROR "component author installs no header")
  endif()
endfunction()

# No header of a component needs those of gRPC or protobuf.
function(check_grpc_is_hidden component)
  file(STRINGS ${TREE}/install_manifest_${component}.txt headers REGEX "\\.h$")
  if(NOT headers)
    message(FATAL_ERROR "component ${component} installs no header")
  endif()
  foreach(header IN LISTS headers)
    # Of this prefix: the tree may be installed to several at once.
    string(REGEX REPLACE ".*/include/headworks/" "${SCRATCH}/prefix/include/headworks/" header ${header})
    file(STRINGS ${header} included REGEX "#include.*(grpc|protobuf|\\.pb\\.h)")
    if(included)
      message(FATAL_ERROR "${header} shows ${included}")
    endif()
  endforeach()
endfunction()

# Libraries are looked for where a component needs them, and nowhere else.
function(check_what_was_found)
  file(STRINGS ${SCRATCH}/build/CMakeCache.txt grpc REGEX "^(GRPC|Protobuf)_.*(FOUND|LIBRARY)")
  file(STRINGS ${SCRATCH}/build/CMakeCache.txt sqlite REGEX "^SQLite3_LIBRARY")
  if(PROJECT STREQUAL "worker")
    if(sqlite OR NOT grpc)
      message(FATAL_ERROR "component worker found ${sqlite} ${grpc}")
    endif()
  elseif(grpc)
    message(FATAL_ERROR "without component worker gRPC was looked for: ${grpc}")
  endif()
endfunction()

function(check_tasks)
  run(${SCRATCH}/build/show_tasks)
  set(expected [[
task public::embedded::*::count
task public::embedded::words::rank
workflow public::embedded::words, 3 tasks
log: 4 different words
output: {"words":{"be":2,"not":1,"or":1,"to":2}}
]])
  if(NOT output STREQUAL expected)
    message(FATAL_ERROR "show_tasks said:\n${output}\nand not:\n${expected}")
  endif()
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
run(${CMAKE_COMMAND} --install ${TREE} --prefix ${SCRATCH}/prefix --component author)
check_author_headers()
if(PROJECT STREQUAL "worker")
  set(components executors worker)
elseif(NOT PROJECT STREQUAL "out_of_tree")
  set(components executors runtime)
endif()
foreach(component IN LISTS components)
  run(${CMAKE_COMMAND} --install ${TREE} --prefix ${SCRATCH}/prefix --component ${component} --strip)
  check_grpc_is_hidden(${component})
endforeach()
run(${CMAKE_COMMAND} -G Ninja -S ${CMAKE_CURRENT_LIST_DIR}/${PROJECT} -B ${SCRATCH}/build
  -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix -DCMAKE_CXX_COMPILER=${COMPILER}
  -DCMAKE_CXX_STANDARD=${STANDARD})
check_what_was_found()
run(${CMAKE_COMMAND} --build ${SCRATCH}/build)
if(PROJECT STREQUAL "embedded")
  set(PROGRAM ${SCRATCH}/build/orders)
  set(SCRATCH ${SCRATCH}/state)
  include(${CMAKE_CURRENT_LIST_DIR}/embedded/orders_test.cmake)
elseif(PROJECT STREQUAL "custom_executor")
  set(PROGRAM ${SCRATCH}/build/print)
  set(SCRATCH ${SCRATCH}/state)
  include(${CMAKE_CURRENT_LIST_DIR}/custom_executor/print_test.cmake)
elseif(PROJECT STREQUAL "worker")
  set(PROGRAM ${SCRATCH}/build/words)
  set(HEADWORKS ${TREE}/bin/headworks)
  set(SCRATCH ${SCRATCH}/state)
  include(${CMAKE_CURRENT_LIST_DIR}/worker/words_test.cmake)
  set(PROGRAM ${SCRATCH}/../build/mail)
  set(SCRATCH ${SCRATCH}-mail)
  include(${CMAKE_CURRENT_LIST_DIR}/worker/mail_test.cmake)
elseif(PROJECT STREQUAL "jobs")
  set(PROGRAM ${SCRATCH}/build/mail)
  set(HEADWORKS ${TREE}/bin/headworks)
  set(SCRATCH ${SCRATCH}/state)
  include(${CMAKE_CURRENT_LIST_DIR}/jobs/mail_test.cmake)
else()
  check_tasks()
endif()
