: # sourced by part.sh
skip "nothing yet"
