# What the command line pushes the program sends; what does not fit is a dead letter that says why.
#   cmake -DPROGRAM=.../mail -DHEADWORKS=.../headworks -DSCRATCH=... -P mail_test.cmake
file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH})
set(ENV{HEADWORKS_STORE} ${SCRATCH}/jobs.db)

function(expect pattern)
  execute_process(COMMAND ${ARGN} TIMEOUT 60
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0 OR NOT output MATCHES "${pattern}")
    message(FATAL_ERROR "${ARGN}: exit ${result}\n${output}\nand not ${pattern}")
  endif()
endfunction()

set(queue ${HEADWORKS} queue)
expect(inserted ${queue} push mail [[{"to": "ann@example.org", "copies": 2}]] --id welcome-ann)
expect(inserted ${queue} push mail [[{"to": 7, "copies": 1}]] --id misfit --priority 2)
expect(inserted ${queue} push mail [[{"to": "nobody", "copies": 1}]] --id nobody --priority 1)
expect("^welcome-ann: copy 1 to ann@example.org\nwelcome-ann: copy 2 to ann@example.org\n$"
  sh -c [[
"$1" "$HEADWORKS_STORE" & program=$!
until "$2" queue stats mail | grep -q "1 completed, 2 deliveries failed"
do
  kill -0 $program && sleep 0.1 || exit 1
done
kill -TERM $program && wait $program
]] sh ${PROGRAM} ${HEADWORKS})
expect("misfit.*to of payload: expected a string, found" ${queue} dead mail)
expect("nobody.*no address: nobody" ${queue} dead mail)

# The page shows parts of this program, and nothing else.
file(READ ${CMAKE_CURRENT_LIST_DIR}/mail.cc source)
file(READ ${CMAKE_CURRENT_LIST_DIR}/../../docs/queue.md page)
string(REGEX REPLACE ".*\n## Handlers\n" "" page "${page}")
string(REGEX REPLACE "\n## .*" "" page "${page}")
string(REPLACE ";" "<semicolon>" page "${page}")
string(REPLACE ";" "<semicolon>" source "${source}")
string(REGEX MATCHALL "```cpp\n[^`]*```" snippets "${page}")
list(LENGTH snippets count)
if(NOT count EQUAL 2)
  message(FATAL_ERROR "${count} snippets on the page, and not 2")
endif()
foreach(snippet IN LISTS snippets)
  string(REGEX REPLACE "^```cpp\n(.*)```$" "\\1" snippet "${snippet}")
  string(FIND "${source}" "${snippet}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "docs/queue.md shows what mail.cc does not have:\n${snippet}")
  endif()
endforeach()
