# A real engine gives a function and a command to the worker, which leaves when it is told to.
#   cmake -DPROGRAM=.../words -DHEADWORKS=.../headworks -DSCRATCH=... -P words_test.cmake
file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH})
set(ENV{HEADWORKS_STORE} ${SCRATCH}/state.db)
set(ENV{HEADWORKS_FUNCTION_EXECUTOR} queue)
set(ENV{HEADWORKS_COMMAND_EXECUTOR} queue)
file(WRITE ${SCRATCH}/words.yaml [[
version: 1
name: words
tasks:
  make:
    run: echo '{"text":"to be or not to be"}' > "$HEADWORKS_OUTPUT"
  count:
    needs: [make]
    function: count_words
]])
execute_process(TIMEOUT 90 WORKING_DIRECTORY ${SCRATCH}
  COMMAND bash -eu -c [[
program=$1 headworks=$2 words=
"$headworks" up --rpc-listen 127.0.0.1:0 > up.log 2>&1 & up=$!
trap 'kill $up $words 2> /dev/null || true; cat up.log words.log' ERR
until grep -qs "workers connect to" up.log; do kill -0 $up; sleep 0.1; done
(umask 077; "$headworks" worker token create --name words > token)
"$program" "$(sed -n 's/^workers connect to //p' up.log)" token words-state > words.log 2>&1 & words=$!
until grep -qs "registered as" words.log; do kill -0 $words; sleep 0.1; done
"$headworks" run words.yaml
"$headworks" runs logs @last count
"$headworks" runs show @last -o json
kill -TERM $words
wait $words
kill -TERM $up
wait $up
]] bash ${PROGRAM} ${HEADWORKS}
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors)
if(NOT result EQUAL 0 OR NOT output MATCHES "counted 6 words" OR NOT output MATCHES "\"words\": *6")
  message(FATAL_ERROR "words: exit ${result}\n${output}\n${errors}")
endif()
