# The embedded example succeeds, fails with its reason, and goes on with the same database.
file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH})

function(expect items code pattern)
  execute_process(COMMAND ${PROGRAM} ${SCRATCH}/orders.db ${items}
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL code OR NOT output MATCHES "${pattern}")
    message(FATAL_ERROR "orders ${items}: exit ${result}, expected ${code}\n${output}")
  endif()
endfunction()

expect(3 0 "^succeeded {\"total\":21}\n$")
expect(0 1 "price: an order needs at least one item\nfailed")
expect(6 0 "^succeeded {\"total\":42}\n$")
