# Installs the component `author` of a build tree, then configures, builds and runs the project in
# out_of_tree with one compiler, as its author would.
#   cmake -DTREE=... -DSCRATCH=... -DCOMPILER=... -DSTANDARD=20 -P out_of_tree_test.cmake
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${code}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
run(${CMAKE_COMMAND} --install ${TREE} --prefix ${SCRATCH}/prefix --component author)
file(STRINGS ${TREE}/install_manifest_author.txt installed REGEX "\\.h$")
foreach(header IN LISTS installed)
  if(NOT header MATCHES "/include/headworks/(author|base|model)/")
    message(FATAL_ERROR "component author installs ${header}")
  endif()
endforeach()
if(NOT installed)
  message(FATAL_ERROR "component author installs no header")
endif()
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/out_of_tree -B ${SCRATCH}/build
  -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix -DCMAKE_CXX_COMPILER=${COMPILER}
  -DCMAKE_CXX_STANDARD=${STANDARD})
run(${CMAKE_COMMAND} --build ${SCRATCH}/build)
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
