#!/usr/bin/env bash
# Packs the release that test_users_notice_no_upgrade.py upgrades from: chart and code of one commit, as version 0.0.1.
#   e2e/scenarios/previous_release/make.sh COMMIT
# The archives are committed, because CI may have no history. The same commit gives the same bytes.
set -euo pipefail
commit=$1
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$here/../../.."

pack() { # FOLDER WHAT: a tar on standard output
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$1" -c "$2"
}

mkdir "$scratch/chart" "$scratch/code"
git archive "$commit:helm" tandem | tar -x -C "$scratch/chart"
sed -i 's/^version: .*/version: 0.0.1/; s/^appVersion: .*/appVersion: 0.0.1/' "$scratch/chart/tandem/Chart.yaml"
pack "$scratch/chart" tandem | gzip -9n >"$here/tandem-0.0.1.tgz"

for part in crds:tandem_api operator:tandem_operator autoscaler:tandem_autoscaler; do
  git archive "$commit:${part%%:*}" "${part##*:}" | tar -x -C "$scratch/code"
done
# What runs in no pod.
rm -r "$scratch/code/tandem_autoscaler/"{benchmark,cli,diagnose,simulator}
pack "$scratch/code" . | bzip2 -9 >"$here/code.tar.bz2"
