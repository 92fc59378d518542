#!/bin/sh
# Check the project files: workflows, issue forms, dependabot, CITATION.cff, pre-commit, news fragments.
#     sh tools/lint_project.sh .venv/bin
set -eu
bin=$1
quietly() { output=$("$@" 2>&1) || { echo "$output"; exit 1; }; }
schema() { quietly "$bin/check-jsonschema" --builtin-schema "vendor.$1" "$2"; }

for file in .github/workflows/*.yml; do schema github-workflows "$file"; done
for file in .github/ISSUE_TEMPLATE/[!c]*.yml; do schema github-issue-forms "$file"; done
schema github-issue-config .github/ISSUE_TEMPLATE/config.yml
schema dependabot .github/dependabot.yml
schema citation-file-format CITATION.cff
quietly "$bin/zizmor" --offline --no-progress .github
quietly "$bin/pre-commit" validate-config
quietly "$bin/towncrier" build --draft --version Unreleased
