# An engine that runs all tasks itself gives the items of a queue to a program that reaches it over the
# network alone, and that leaves when it is told to.
#   cmake -DPROGRAM=.../mail -DHEADWORKS=.../headworks -DSCRATCH=... -P mail_test.cmake
file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH})
set(ENV{HEADWORKS_STORE} ${SCRATCH}/state.db)
execute_process(TIMEOUT 90 WORKING_DIRECTORY ${SCRATCH}
  COMMAND bash -eu -c [[
program=$1 headworks=$2 mail=
"$headworks" up --rpc-listen 127.0.0.1:0 > up.log 2>&1 & up=$!
trap 'kill $up $mail 2> /dev/null || true; cat up.log mail.log' ERR
until grep -qs "workers connect to" up.log; do kill -0 $up; sleep 0.1; done
(umask 077; "$headworks" worker token create --name mail --queues mail > token)
"$program" "$(sed -n 's/^workers connect to //p' up.log)" token > mail.log 2>&1 & mail=$!
"$headworks" queue push mail '{"to": "ann@example.org", "copies": 2}' --id welcome-ann
"$headworks" queue push mail '{"to": "nobody", "copies": 1}' --id nobody
until "$headworks" queue stats mail | grep -q "1 completed, 1 deliveries failed"
do
  kill -0 $mail
  sleep 0.1
done
"$headworks" queue dead mail
kill -TERM $mail
wait $mail
cat mail.log
kill -TERM $up
wait $up
]] bash ${PROGRAM} ${HEADWORKS}
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors)
if(NOT result EQUAL 0 OR NOT output MATCHES "no address: nobody"
    OR NOT output MATCHES "welcome-ann: copy 1 to ann@example.org\nwelcome-ann: copy 2 to ann@example.org")
  message(FATAL_ERROR "mail: exit ${result}\n${output}\n${errors}")
endif()

# The page shows parts of this program, and nothing else.
file(READ ${CMAKE_CURRENT_LIST_DIR}/mail.cc source)
file(READ ${CMAKE_CURRENT_LIST_DIR}/../../docs/queue.md page)
string(REGEX REPLACE ".*\n## Handlers on other hosts\n" "" page "${page}")
string(REGEX REPLACE "\n## .*" "" page "${page}")
string(REPLACE ";" "<semicolon>" page "${page}")
string(REPLACE ";" "<semicolon>" source "${source}")
string(REGEX MATCHALL "```cpp\n[^`]*```" snippets "${page}")
list(LENGTH snippets count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "${count} snippets on the page, and not 1")
endif()
string(REGEX REPLACE "^```cpp\n(.*)```$" "\\1" snippet "${snippets}")
string(FIND "${source}" "${snippet}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "docs/queue.md shows what mail.cc does not have:\n${snippet}")
endif()
