#!/bin/bash
# Runs t/shell/stop.pl: SIGINT at random moments of training.
exec perl t/shell/stop.pl "$1"
