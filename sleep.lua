io.stdout:write("up\n") io.stdout:flush() os.execute("exec sleep 30")
