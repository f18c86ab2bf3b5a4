#!/bin/sh
# Prints a workflow of one task, then N side by side, then one that joins them:
#   ./generate.sh 300 > large.yaml && headworks run large.yaml
set -eu
count=${1:-300}
cat <<HEAD
version: 1
name: large
description: 1 to $count to 1.
tasks:
  split:
    run: seq 1 $count > "\$HEADWORKS_SCRATCH/parts"
HEAD
needs=
for part in $(seq 1 "$count"); do
  cat <<TASK
  part_$part:
    needs: [split]
    run: sed -n ${part}p "\$HEADWORKS_SCRATCH/parts" > "\$HEADWORKS_SCRATCH/part_$part"
TASK
  needs="$needs${needs:+, }part_$part"
done
cat <<TAIL
  join:
    needs: [$needs]
    run: |
      sum=\$(cat "\$HEADWORKS_SCRATCH"/part_* | awk '{ s += \$1 } END { print s }')
      echo "{\"sum\": \$sum}" > "\$HEADWORKS_OUTPUT"
TAIL
