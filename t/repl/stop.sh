#!/bin/bash
# Runs t/repl/stop.pl: SIGINT at random moments of training.
exec perl t/repl/stop.pl "$1"
