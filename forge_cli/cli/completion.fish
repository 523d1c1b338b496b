function __forge_complete
    set -l words (commandline -opc) (commandline -ct)
    env _FORGE_COMPLETE=1 $words[1] $words[2..-1] 2>/dev/null
end
complete -c forge -a '(__forge_complete)'
