#include "words.h"

#include <array>

namespace headworks::cli {
namespace {

constexpr auto kWords = std::to_array<Word>({
    {"artifact",
     "A file that the task was to leave (`artifacts`) is not there or cannot be kept, or one that "
     "it needs cannot be had. Counts as a try. `headworks runs why RUN TASK` names the file."},
    {"backoff",
     "The last try failed, and the next one waits as `retry` says (initial, factor, max). "
     "`headworks runs why RUN TASK` says until when."},
    {"cancel_requested",
     "Somebody cancelled the run: `headworks runs cancel`, Ctrl-C at `headworks run`, or a newer "
     "run with the same concurrency key. What ran was stopped, nothing else starts but on_cancel "
     "and finally tasks. `headworks runs rerun RUN --failed` goes on with it."},
    {"cancel_rest",
     "Another task failed for good, and the workflow says `on_failure: cancel_rest`. Look for the "
     "task that is failed; this one is not at fault."},
    {"cancel_timeout",
     "The run was cancelled, and not all of it was known to be over in time. A task that was "
     "running then is shown as cancelled though it may still run somewhere; what its attempt says "
     "later changes nothing."},
    {"cancelled", "The run, or what was left of it, was stopped. The reason beside it says why."},
    {"credential_ceiling",
     "The task ran elsewhere for as long as its token may be renewed, and was stopped. Give it a "
     "timeout, or split it."},
    {"deadline",
     "The task was not over within its `deadline`, which spans all its tries and the waits between "
     "them. It is not tried again; `timeout` is the bound of a single try."},
    {"dispatch_failed",
     "The executor answered no to every offer of the task. That costs no try; after six such "
     "answers the task fails. `headworks runs why RUN TASK` has the last answer."},
    {"error",
     "A C++ function threw, or returned an error. Counts as a try. `headworks runs why RUN TASK` "
     "has its message."},
    {"exit_code",
     "The command ended with another exit code than 0. Counts as a try, and is tried again as "
     "`retry` says. `headworks runs logs RUN TASK` shows what it printed."},
    {"expression",
     "An expression of the task (`when`, or within ${{ }}) has no value for this run: a name that "
     "an output lacks, a wrong type. `headworks runs why RUN TASK` names it; `headworks expr` "
     "tries "
     "expressions."},
    {"failed",
     "Of a task: it is out of tries, or what happened cannot be tried again. Of a run: a task "
     "failed that may not (`allow_failure`). `headworks runs why RUN` explains all that failed, "
     "`headworks runs rerun RUN --failed` tries them again."},
    {"finally_timeout",
     "The finally tasks together took longer than the workflow's `finally_timeout`; those that "
     "were "
     "left were stopped."},
    {"interrupted",
     "The engine or worker left first (a deploy, a reboot, SIGTERM) and stopped the attempt. It "
     "runs again, and costs neither a try nor a loss."},
    {"lost",
     "The attempt is over without a word of its own: its engine, its worker or the machine died. "
     "It costs a loss, not a try, and the task runs again, from the second loss on after a pause "
     "of 0.5 s that doubles up to a minute; it fails once `retry.max_losses` "
     "attempts (6 unless the file says otherwise) were lost, because then it may well be what "
     "kills them: look at its memory."},
    {"marked",
     "A person set how the task ended, with `headworks runs mark`. How its last attempt ended does "
     "not count any more. `headworks runs show RUN -o json` has who and when, among the events."},
    {"none", "Nothing of note: it went as it should."},
    {"not_cancelled", "An on_cancel task of a run that nobody cancelled: it had nothing to do."},
    {"output",
     "The task succeeded, but what it wrote to $HEADWORKS_OUTPUT cannot be taken: no JSON object "
     "and no key=value lines, more than 1 MiB, or not of the types that `output` declares. It is "
     "not tried again. `headworks runs why RUN TASK` says what is wrong."},
    {"parked",
     "The task waits for a time: its next try, or what it snoozes for. It holds nothing "
     "meanwhile."},
    {"paused",
     "Somebody paused the run: what runs goes on, nothing new begins until `headworks runs resume "
     "RUN`."},
    {"pending",
     "Of a run: it is accepted, and waits for its turn. Of a task: its executor has it and has not "
     "started it within its start_timeout, because it waits for a place there. `headworks runs "
     "why RUN TASK` says for what."},
    {"pending_timeout",
     "The task did not start within its `start_timeout`, nor for the `pending_timeout` of the "
     "engine after that. Nothing of it ran. Give it longer, or its executor or its workers more "
     "room."},
    {"permit",
     "The task is ready, and its pool has too few free permits. `headworks pool show POOL` says "
     "who "
     "holds them."},
    {"queued",
     "The task was offered to its executor, or waits for a worker, and has not started yet."},
    {"ready", "All that the task waits for is over; it starts as soon as there is a place for it."},
    {"refused",
     "The executor forbids the task, so offering it again cannot help. `headworks runs why RUN "
     "TASK` says why."},
    {"retry", "The attempt failed, and the task may be tried again."},
    {"run_timeout",
     "The run was not over within the workflow's `timeout`; what was left was stopped, and the run "
     "counts as failed."},
    {"running", "It is at work."},
    {"signal",
     "A signal that did not come from Headworks ended the command. Counts as a try. Signal 9 often "
     "comes from the kernel, where memory ran out (`dmesg`); 11 is a fault in the program."},
    {"skipped",
     "The task did not run, and that is no failure: its `when` is false, its trigger rule says so, "
     "it skipped itself, or somebody marked it. What needs it is skipped too, unless its trigger "
     "rule says otherwise."},
    {"snooze", "The task asked to run again later; that costs no try."},
    {"snoozed", "The attempt asked for its task to run again later; that costs no try."},
    {"spawn",
     "The command could not be started: there is no such program in the task's PATH, it is not "
     "executable, or the task's folder is not there. `headworks runs why RUN TASK` says which. "
     "Where the machine is out of processes or descriptors, it is tried again later, at no cost."},
    {"stuck",
     "The run's own state cannot be stored, so it was set aside and the others go on. `headworks "
     "runs unstick RUN` tries again."},
    {"succeeded", "It is over, and went well."},
    {"timeout",
     "The try took longer than the task's `timeout`: it was asked to end (SIGTERM), and after "
     "`grace` killed. Counts as a try."},
    {"trigger_rule",
     "The task's `trigger_rule` decided, by how the tasks that it needs ended: `headworks runs why "
     "RUN TASK` names them."},
    {"unknown",
     "The executor cannot say what became of the attempt, so it may still run somewhere. It is not "
     "run a second time; after `pending_timeout` the task fails. See that it is over before you "
     "rerun it."},
    {"upstream_failed",
     "A task that this one needs failed, so it never ran. Mend that one: `headworks runs rerun RUN "
     "--failed` runs both."},
    {"waiting", "Tasks that it needs are not over."},
    {"when", "Its `when` is false, so it was skipped."},
});

}  // namespace

std::span<const Word> Words() { return kWords; }

}  // namespace headworks::cli
